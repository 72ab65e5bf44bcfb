-- What erase and redact run on SQLite, by name. Values are always bound.

-- holders: the sessions that hold parts of one: its forks, its children, and those that read its own log
SELECT s.session, s.tree, s.id, s.key
FROM   (SELECT session FROM session WHERE origin = ?1
        UNION
        SELECT session FROM session WHERE parent = ?1
        UNION
        SELECT session FROM share WHERE log = ?2 AND session <> ?1) h
CROSS JOIN session s ON s.session = h.session
ORDER BY s.session

-- readers: the sessions that read an entry of a log
SELECT s.session, s.tree, s.id, s.key
FROM   share h
CROSS JOIN session s ON s.session = h.session
WHERE  h.log = ? AND ? BETWEEN h.first AND h.last
ORDER BY s.session

-- count_own: how many entries a log holds
SELECT count(*) FROM entry WHERE log = ?

-- bury: a tombstone takes the place of an entry's content
UPDATE entry SET key = ?, usage = ?, body = ? WHERE log = ? AND seq = ?

-- count_tombstone: one more entry of a log is redacted
UPDATE log SET redacted = redacted + ? WHERE log = ?

-- tombstones: the redacted entries of a log; only one that has some is read
SELECT e.seq
FROM   log l
CROSS JOIN entry e ON e.log = l.log
WHERE  l.log = ? AND l.redacted > 0 AND substr(e.body, 1, 1) = x'02'
ORDER BY e.seq

-- key_row: what an idempotency key of a log stands for
SELECT key, seq, count, identity FROM key WHERE log = ? AND key = ?

-- delete_key: one that nobody may read any more
DELETE FROM key WHERE log = ? AND key = ?

-- delete_entry_blob_uses: a redacted entry has no large parts
DELETE FROM blob_use WHERE log = ? AND seq = ?

-- touch: something of a session changed that is no entry
UPDATE head SET updated_at = ?, seal = ? WHERE session = ?

-- owe: bytes of what was erased may still lie in the file
INSERT INTO owed (since) VALUES (?)

-- owed: whether they may
SELECT 1 FROM owed LIMIT 1

-- settle_owed: they are gone
DELETE FROM owed

-- verify_redacted: logs that hold more or less tombstones than they say
SELECT s.id, l.redacted, (SELECT count(*) FROM entry e WHERE e.log = l.log AND substr(e.body, 1, 1) = x'02') AS found
FROM   log l
LEFT JOIN head h    ON h.log = l.log
LEFT JOIN session s ON s.session = h.session
WHERE  l.redacted <> found

-- content_of: the key that an entry has, and whether it is a tombstone already
SELECT key, substr(body, 1, 1) = x'02' FROM entry WHERE log = ? AND seq = ?

-- memory_nodes_naming: the nodes of a namespace that name a session
SELECT n.tree, n.scope, n.addr, n.type, n.active, n.created_at, n.touched_at, n.expires_at, n.promoted_at, n.session, n.agent,
       n.domain, n.inputs, n.about, n.content
FROM   memory m
CROSS JOIN node n ON n.tree = m.tree
WHERE  m.namespace = ?1 AND (n.session = ?2 OR instr(n.about, ?3) > 0)

-- memory_chains_naming: likewise the chains
SELECT c.tree, c.scope, c.chain, c.name, c.status, c.created_at, c.extended_at, c.session, c.agent, c.domain, c.members, c.about
FROM   memory m
CROSS JOIN chain c ON c.tree = m.tree
WHERE  m.namespace = ?1 AND (c.session = ?2 OR instr(c.about, ?3) > 0)

-- memory_events_naming: and what was done
SELECT e.tree, e.number, e.what, e.session, e.agent, e.addrs, e.detail
FROM   memory m
CROSS JOIN memory_event e ON e.tree = m.tree
WHERE  m.namespace = ?1 AND (e.session = ?2 OR instr(e.detail, ?3) > 0)

-- memory_unname_node: without the name
UPDATE node SET session = ?, about = ?, seal = ? WHERE tree = ? AND scope = ? AND addr = ?

-- memory_unname_chain: likewise
UPDATE chain SET session = ?, about = ?, seal = ? WHERE tree = ? AND chain = ?

-- memory_unname_event: likewise
UPDATE memory_event SET session = ?, detail = ?, seal = ? WHERE tree = ? AND number = ?

-- recount_tombstones: of a log that was cut
UPDATE log
SET    redacted = (SELECT count(*) FROM entry WHERE log = ?1 AND seq <= ?2 AND substr(body, 1, 1) = x'02')
WHERE  log = ?1 AND redacted > 0
