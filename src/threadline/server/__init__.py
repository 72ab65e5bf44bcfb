"""threadline for programs that speak a protocol. Each uses the public API only, and needs an extra."""
