-- Every statement that threadline runs on SQLite, by name. Values are always bound.

-- head: what an append needs to know
SELECT namespace, log, status, opened, updated_at,
       head, chain, view, shown, total, open, asked, pending, messages, tokens
FROM   head
WHERE  session = ?

-- insert_entry: one line of the log
INSERT INTO entry (log, seq, kind, at, tokens, voice, view, shown, total, open, asked,
                   digest, chain, key, usage, calls, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- move_head: after the entries of a write
UPDATE head
SET    opened = ?, updated_at = ?,
       head = ?, chain = ?, view = ?, shown = ?, total = ?, open = ?, asked = ?, pending = ?, messages = ?, tokens = ?,
       seal = ?
WHERE  session = ?

-- set_status: a change that is not an entry
UPDATE head
SET    status = ?, updated_at = ?, seal = ?
WHERE  session = ?

-- row: one entry. The index only finds it, and log and seq are compared with the row itself: SQLite would take them from
-- the index, and if that is damaged, another entry's row would pass for this one
SELECT seq, kind, at, tokens, voice, view, shown, total, open, asked, digest, chain, key, usage, calls, body
FROM   entry
WHERE  entry = (SELECT entry FROM entry WHERE log = ?1 AND seq = ?2)
AND    +log = ?1 AND +seq = ?2

-- shown: how many visible entries there are up to one
SELECT shown FROM entry WHERE log = ? AND seq = ?

-- rows: a page of entries, joined to itself for the same reason
SELECT e.seq, e.kind, e.at, e.tokens, e.voice, e.view, e.shown, e.total, e.open, e.asked,
       e.digest, e.chain, e.key, e.usage, e.calls, e.body
FROM   entry i
CROSS JOIN entry e ON e.entry = i.entry AND e.log = i.log AND e.seq = i.seq
WHERE  i.log = ? AND i.seq BETWEEN ? AND ?
ORDER BY i.seq
LIMIT  ?

-- rows_reverse: a page of entries, latest first
SELECT e.seq, e.kind, e.at, e.tokens, e.voice, e.view, e.shown, e.total, e.open, e.asked,
       e.digest, e.chain, e.key, e.usage, e.calls, e.body
FROM   entry i
CROSS JOIN entry e ON e.entry = i.entry AND e.log = i.log AND e.seq = i.seq
WHERE  i.log = ? AND i.seq BETWEEN ? AND ?
ORDER BY i.seq DESC
LIMIT  ?

-- insert_log: where the entries of a new session go
INSERT INTO log (salt) VALUES (?)

-- salt: where a chain begins
SELECT salt FROM log WHERE log = ?

-- insert_session: what is said of a new session
INSERT INTO session (tree, namespace, id, key, created_at, cwd, agent, origin, about, seal)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- insert_head: its hot half
INSERT INTO head (session, namespace, log, status, opened, updated_at,
                  head, chain, view, shown, total, open, asked, pending, messages, tokens, seal)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- insert_share: a stretch of a log that a session reads
INSERT INTO share (session, first, last, log, seal) VALUES (?, ?, ?, ?, ?)

-- lineage: where a session's entries lie
SELECT log, first, last FROM share WHERE session = ? ORDER BY first

-- by_id: a session by its id, compared with the row itself, so that a damaged index leads to no other session
SELECT session, tree, id, key
FROM   session
WHERE  session = (SELECT session FROM session WHERE namespace = ?1 AND id = ?2)
AND    +namespace = ?1 AND +id = ?2

-- by_key: a session by its key, likewise
SELECT session, tree, id, key
FROM   session
WHERE  session = (SELECT session FROM session WHERE namespace = ?1 AND key = ?2)
AND    +namespace = ?1 AND +key = ?2

-- forks: the sessions that were forked from one
SELECT session, tree, id, key FROM session WHERE origin = ? ORDER BY session

-- about: what is said of a session
SELECT tree, namespace, id, key, created_at, origin, about FROM session WHERE session = ?

-- set_about: what is said of a session, anew
UPDATE session SET cwd = ?, agent = ?, about = ?, seal = ? WHERE session = ?

-- insert_tag: found by listings
INSERT INTO tag (namespace, tag, session) VALUES (?, ?, ?)

-- delete_tag: no longer found by it
DELETE FROM tag WHERE namespace = ? AND tag = ? AND session = ?

-- insert_key: what an idempotency key stands for
INSERT INTO key (log, key, seq, count, identity, seal) VALUES (?, ?, ?, ?, ?, ?)

-- find_key: the call of a key, in the own log or in what is shared
SELECT key.seq, key.count, key.identity
FROM   share
JOIN   key ON key.log = share.log AND key.key = ?
          AND key.seq >= share.first AND key.seq + key.count - 1 <= share.last
WHERE  share.session = ?

-- record: a session as it is now
SELECT s.session, s.id, s.key, s.about, h.status, s.created_at, h.updated_at,
       h.head, h.chain, h.view, h.shown, h.total, h.open, h.asked, h.pending, h.messages, h.tokens
FROM   session s
JOIN   head h ON h.session = s.session
WHERE  s.session = ?

-- list_by_updated: a page of sessions, the latest change first
SELECT s.session, s.id, s.key, s.about, h.status, s.created_at, h.updated_at,
       h.head, h.chain, h.view, h.shown, h.total, h.open, h.asked, h.pending, h.messages, h.tokens
FROM   head h INDEXED BY head_by_updated
CROSS JOIN session s ON s.session = h.session
WHERE  h.namespace = :namespace
AND    (h.updated_at, h.session) < (:at, :number)
AND    (:status  IS NULL OR h.status = :status)
AND    (:waiting IS NULL OR (h.pending > 0 OR h.asked > 0) = :waiting)
AND    (:before  IS NULL OR h.updated_at < :before)
AND    (:cwd     IS NULL OR s.cwd = :cwd)
AND    (:agent   IS NULL OR s.agent = :agent)
AND    (:prefix  IS NULL OR (s.key >= :prefix AND s.key < :prefix_end))
AND    (:tag     IS NULL OR EXISTS (SELECT 1 FROM tag t
                                    WHERE t.namespace = :namespace AND t.tag = :tag AND t.session = h.session))
ORDER BY h.updated_at DESC, h.session DESC
LIMIT  :limit

-- list_by_created: a page of sessions, the youngest first
SELECT s.session, s.id, s.key, s.about, h.status, s.created_at, h.updated_at,
       h.head, h.chain, h.view, h.shown, h.total, h.open, h.asked, h.pending, h.messages, h.tokens
FROM   session s INDEXED BY session_by_created
CROSS JOIN head h ON h.session = s.session
WHERE  s.namespace = :namespace
AND    (s.created_at, s.session) < (:at, :number)
AND    (:status  IS NULL OR h.status = :status)
AND    (:waiting IS NULL OR (h.pending > 0 OR h.asked > 0) = :waiting)
AND    (:before  IS NULL OR h.updated_at < :before)
AND    (:cwd     IS NULL OR s.cwd = :cwd)
AND    (:agent   IS NULL OR s.agent = :agent)
AND    (:prefix  IS NULL OR (s.key >= :prefix AND s.key < :prefix_end))
AND    (:tag     IS NULL OR EXISTS (SELECT 1 FROM tag t
                                    WHERE t.namespace = :namespace AND t.tag = :tag AND t.session = h.session))
ORDER BY s.created_at DESC, s.session DESC
LIMIT  :limit

-- list_few: the same of a few sessions that an index found; the caller sorts and cuts
SELECT s.session, s.id, s.key, s.about, h.status, s.created_at, h.updated_at,
       h.head, h.chain, h.view, h.shown, h.total, h.open, h.asked, h.pending, h.messages, h.tokens
FROM   json_each(:numbers) few
CROSS JOIN session s ON s.session = few.value
CROSS JOIN head h ON h.session = s.session
WHERE  s.namespace = :namespace
AND    (CASE :order WHEN 'created' THEN s.created_at ELSE h.updated_at END, s.session) < (:at, :number)
AND    (:status  IS NULL OR h.status = :status)
AND    (:waiting IS NULL OR (h.pending > 0 OR h.asked > 0) = :waiting)
AND    (:before  IS NULL OR h.updated_at < :before)
AND    (:cwd     IS NULL OR s.cwd = :cwd)
AND    (:agent   IS NULL OR s.agent = :agent)
AND    (:prefix  IS NULL OR (s.key >= :prefix AND s.key < :prefix_end))
AND    (:tag     IS NULL OR EXISTS (SELECT 1 FROM tag t
                                    WHERE t.namespace = :namespace AND t.tag = :tag AND t.session = h.session))
ORDER BY CASE :order WHEN 'created' THEN s.created_at ELSE h.updated_at END DESC, s.session DESC
LIMIT  :limit

-- few_by_cwd: the sessions of a folder, if they are few
SELECT session FROM session WHERE namespace = :namespace AND cwd = :cwd LIMIT :few

-- few_by_agent: the sessions of an agent, if they are few
SELECT session FROM session WHERE namespace = :namespace AND agent = :agent LIMIT :few

-- few_by_tag: the sessions of a tag, if they are few
SELECT session FROM tag WHERE namespace = :namespace AND tag = :tag LIMIT :few

-- few_by_prefix: the sessions whose key begins so, if they are few
SELECT session FROM session WHERE namespace = :namespace AND key >= :prefix AND key < :prefix_end LIMIT :few

-- originals: every session in the order they were made, for a copy of the store
SELECT s.session, s.tree, s.id, s.key, s.namespace, s.created_at, h.updated_at, h.status, s.about, s.origin
FROM   session s
JOIN   head h ON h.session = s.session
WHERE  s.session > ?
ORDER BY s.session
LIMIT  ?

-- keys_after: the idempotency keys of a log from an entry on
SELECT key, seq, count, identity FROM key WHERE log = ? AND seq > ? ORDER BY seq

-- counts: for stats
SELECT (SELECT count(*) FROM session), (SELECT count(*) FROM log), (SELECT count(*) FROM entry)

-- schema: what the tables and indexes are
SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name

-- verify_file: what SQLite itself can tell of its pages and indexes
PRAGMA integrity_check(1000)

-- verify_numbers: every session of which there is a trace
SELECT session FROM session UNION SELECT session FROM head ORDER BY 1

-- verify_session: all that is said of a session
SELECT tree, namespace, id, key, created_at, cwd, agent, origin, about, seal FROM session WHERE session = ?

-- verify_tags: what listings find a session by
SELECT namespace, tag FROM tag WHERE session = ?

-- verify_head: the hot half of a session
SELECT namespace, seal, log, status, opened, updated_at,
       head, chain, view, shown, total, open, asked, pending, messages, tokens
FROM   head
WHERE  session = ?

-- verify_shares: a session's lineage
SELECT session, first, last, log, seal FROM share WHERE session = ? ORDER BY first

-- verify_outside: entries that no seq of the session reaches
SELECT count(*) FROM entry WHERE log = ? AND (seq > ? OR seq <= ?)

-- verify_keys: each idempotency key, its session, and how many of its entries carry it
SELECT k.log, k.key, k.seq, k.count, k.identity, k.seal, s.id,
       (SELECT count(*) FROM entry e
        WHERE e.log = k.log AND e.seq BETWEEN k.seq AND k.seq + k.count - 1 AND e.key = k.key)
FROM   key k
LEFT JOIN head h    ON h.log = k.log
LEFT JOIN session s ON s.session = h.session

-- verify_keyless: entries whose idempotency key has no row
SELECT e.seq, s.id
FROM   entry e
LEFT JOIN key k     ON k.log = e.log AND k.key = e.key AND e.seq BETWEEN k.seq AND k.seq + k.count - 1
LEFT JOIN head h    ON h.log = e.log
LEFT JOIN session s ON s.session = h.session
WHERE  e.key IS NOT NULL AND k.key IS NULL

-- verify_strays: rows that belong to nothing
SELECT (SELECT count(*) FROM entry WHERE log     NOT IN (SELECT log     FROM share)),
       (SELECT count(*) FROM log   WHERE log     NOT IN (SELECT log     FROM share)),
       (SELECT count(*) FROM share WHERE session NOT IN (SELECT session FROM session)),
       (SELECT count(*) FROM tag   WHERE session NOT IN (SELECT session FROM session))
