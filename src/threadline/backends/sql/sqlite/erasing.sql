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

-- memories_of: every memory of a namespace: any of them may name a session of it
SELECT tree, project FROM memory WHERE namespace = ? ORDER BY tree

-- recount_tombstones: of a log that was cut
UPDATE log
SET    redacted = (SELECT count(*) FROM entry WHERE log = ?1 AND seq <= ?2 AND substr(body, 1, 1) = x'02')
WHERE  log = ?1 AND redacted > 0
