"""The async API: the same names, awaited. Each call is one hop to a thread of the store's own.

A transaction is one plain function on one thread, so it can never span an await. A call that has started always
finishes: if its caller is cancelled meanwhile, CancelledError surfaces after it. A call still queued never happens."""
