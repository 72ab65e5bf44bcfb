-- Every statement that threadline runs on SQLite, by name. Values are always bound.

-- head: what an append needs to know
SELECT namespace, log, status, opened, updated_at, lease,
       head, chain, view, shown, total, open, asked, pending, messages, tokens
FROM   head
WHERE  session = ?

-- lease: who may write to a session
SELECT status, lease FROM head WHERE session = ?

-- set_lease: who may write to a session, anew
UPDATE head SET lease = ? WHERE session = ?

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

-- last_of_kind: the last entry of kind state or goal up to one; both terms, or the index would not be used
SELECT seq
FROM   entry
WHERE  log = ? AND kind = ? AND kind IN ('state', 'goal') AND seq <= ?
ORDER BY seq DESC
LIMIT  1

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

-- insert_blob: a large string, once per tree
INSERT INTO blob (tree, name, size, content) VALUES (?, ?, ?, ?)

-- has_blob: whether a tree has it already
SELECT 1 FROM blob WHERE tree = ? AND name = ?

-- insert_blob_use: an entry that a blob is a part of
INSERT INTO blob_use (log, seq, tree, name) VALUES (?, ?, ?, ?)

-- blob: a large string
SELECT content FROM blob WHERE tree = ? AND name = ?

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

-- last_queued: the number of the last message in an inbox
SELECT coalesce(max(number), 0) FROM inbox WHERE session = ?

-- insert_queued: a message for the inbox
INSERT INTO inbox (session, number, at, tokens, key, body, seal) VALUES (?, ?, ?, ?, ?, ?, ?)

-- queued: an inbox, in order
SELECT session, number, at, tokens, key, body, seal FROM inbox WHERE session = ? ORDER BY number

-- first_queued: the message whose turn it is
SELECT session, number, at, tokens, key, body, seal FROM inbox WHERE session = ? ORDER BY number LIMIT 1

-- queued_by_key: the message of a key, while it waits
SELECT session, number, at, tokens, key, body, seal FROM inbox WHERE session = ? AND key = ?

-- delete_queued: a message that was taken
DELETE FROM inbox WHERE session = ? AND number = ?

-- fill_inbox: one more message waits
UPDATE head SET queued = queued + 1, updated_at = ?, seal = ? WHERE session = ?

-- drain_inbox: one less
UPDATE head SET queued = queued - 1 WHERE session = ?

-- insert_draft: a message begins to stream
INSERT INTO draft (draft, session, at, role, key, writer, seal) VALUES (?, ?, ?, ?, ?, ?, ?)

-- draft: one of them
SELECT draft, session, at, role, key, writer, seal FROM draft WHERE draft = ?

-- drafts: those of a session
SELECT draft, session, at, role, key, writer, seal FROM draft WHERE session = ? ORDER BY at, draft

-- set_draft_writer: its writer let go of it
UPDATE draft SET writer = ?, seal = ? WHERE draft = ?

-- delete_draft: it ended
DELETE FROM draft WHERE draft = ?

-- insert_chunk: the next piece of a draft, if it is there and ours; again, if nobody knows whether it was stored
INSERT OR REPLACE INTO chunk (draft, number, text, seal)
SELECT ?1, ?2, ?3, ?4 FROM draft WHERE draft = ?1 AND writer = ?5

-- chunks: the text of a draft
SELECT draft, number, text, seal FROM chunk WHERE draft = ? ORDER BY number

-- delete_chunks: the text of a draft that ended
DELETE FROM chunk WHERE draft = ?

-- record: a session as it is now
SELECT s.session, s.id, s.key, s.about, h.status, s.created_at, h.updated_at, h.queued, h.lease,
       h.head, h.chain, h.view, h.shown, h.total, h.open, h.asked, h.pending, h.messages, h.tokens
FROM   session s
JOIN   head h ON h.session = s.session
WHERE  s.session = ?

-- list_by_updated: a page of sessions, the latest change first
SELECT s.session, s.id, s.key, s.about, h.status, s.created_at, h.updated_at, h.queued, h.lease,
       h.head, h.chain, h.view, h.shown, h.total, h.open, h.asked, h.pending, h.messages, h.tokens
FROM   head h INDEXED BY head_by_updated
CROSS JOIN session s ON s.session = h.session
WHERE  h.namespace = :namespace
AND    (h.updated_at, h.session) < (:at, :number)
AND    (:status  IS NULL OR h.status = :status)
AND    (:waiting IS NULL OR (h.pending > 0 OR h.asked > 0 OR h.queued > 0) = :waiting)
AND    (:before  IS NULL OR h.updated_at < :before)
AND    (:cwd     IS NULL OR s.cwd = :cwd)
AND    (:agent   IS NULL OR s.agent = :agent)
AND    (:prefix  IS NULL OR (s.key >= :prefix AND s.key < :prefix_end))
AND    (:tag     IS NULL OR EXISTS (SELECT 1 FROM tag t
                                    WHERE t.namespace = :namespace AND t.tag = :tag AND t.session = h.session))
ORDER BY h.updated_at DESC, h.session DESC
LIMIT  :limit

-- list_by_created: a page of sessions, the youngest first
SELECT s.session, s.id, s.key, s.about, h.status, s.created_at, h.updated_at, h.queued, h.lease,
       h.head, h.chain, h.view, h.shown, h.total, h.open, h.asked, h.pending, h.messages, h.tokens
FROM   session s INDEXED BY session_by_created
CROSS JOIN head h ON h.session = s.session
WHERE  s.namespace = :namespace
AND    (s.created_at, s.session) < (:at, :number)
AND    (:status  IS NULL OR h.status = :status)
AND    (:waiting IS NULL OR (h.pending > 0 OR h.asked > 0 OR h.queued > 0) = :waiting)
AND    (:before  IS NULL OR h.updated_at < :before)
AND    (:cwd     IS NULL OR s.cwd = :cwd)
AND    (:agent   IS NULL OR s.agent = :agent)
AND    (:prefix  IS NULL OR (s.key >= :prefix AND s.key < :prefix_end))
AND    (:tag     IS NULL OR EXISTS (SELECT 1 FROM tag t
                                    WHERE t.namespace = :namespace AND t.tag = :tag AND t.session = h.session))
ORDER BY s.created_at DESC, s.session DESC
LIMIT  :limit

-- list_few: the same of a few sessions that an index found; the caller sorts and cuts
SELECT s.session, s.id, s.key, s.about, h.status, s.created_at, h.updated_at, h.queued, h.lease,
       h.head, h.chain, h.view, h.shown, h.total, h.open, h.asked, h.pending, h.messages, h.tokens
FROM   json_each(:numbers) few
CROSS JOIN session s ON s.session = few.value
CROSS JOIN head h ON h.session = s.session
WHERE  s.namespace = :namespace
AND    (CASE :order WHEN 'created' THEN s.created_at ELSE h.updated_at END, s.session) < (:at, :number)
AND    (:status  IS NULL OR h.status = :status)
AND    (:waiting IS NULL OR (h.pending > 0 OR h.asked > 0 OR h.queued > 0) = :waiting)
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

-- last_rows: up to where entries and sessions are numbered
SELECT (SELECT coalesce(max(entry), 0) FROM entry), (SELECT coalesce(max(session), 0) FROM session)

-- changed: the sessions of a namespace with new entries, new ones, and those whose time has moved on
SELECT h.session, h.updated_at
FROM   entry e
CROSS JOIN share s ON s.log = e.log AND s.last = 4611686018427387904
CROSS JOIN head h  ON h.session = s.session
WHERE  e.entry > :entry AND h.namespace = :namespace
UNION
SELECT h.session, h.updated_at
FROM   head h
WHERE  h.session > :session AND h.namespace = :namespace
UNION
SELECT h.session, h.updated_at
FROM   head h INDEXED BY head_by_updated
WHERE  h.namespace = :namespace AND h.updated_at > :at

-- heads: the heads of many sessions at once
SELECT h.head FROM json_each(?) f LEFT JOIN head h ON h.session = f.value ORDER BY f.key

-- counts: for stats
SELECT (SELECT count(*) FROM session), (SELECT count(*) FROM log), (SELECT count(*) FROM entry),
       (SELECT count(*) FROM blob)

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

-- verify_blobs: every large string
SELECT tree, name, size, content FROM blob

-- verify_blob_uses: where uses and blobs do not match
SELECT 'a large part that no entry uses', NULL, NULL
FROM   blob
WHERE  NOT EXISTS (SELECT 1 FROM blob_use u WHERE u.tree = blob.tree AND u.name = blob.name)
UNION ALL
SELECT 'a large part of it is missing', u.log, u.seq
FROM   blob_use u
WHERE  NOT EXISTS (SELECT 1 FROM blob b WHERE b.tree = u.tree AND b.name = u.name)
UNION ALL
SELECT 'a large part belongs to an entry that does not exist', u.log, u.seq
FROM   blob_use u
WHERE  NOT EXISTS (SELECT 1 FROM entry e WHERE e.log = u.log AND e.seq = u.seq)

-- verify_unused: packed entries that no use is recorded of
SELECT log, seq
FROM   entry
WHERE  substr(body, 1, 1) = x'01'
AND    NOT EXISTS (SELECT 1 FROM blob_use u WHERE u.log = entry.log AND u.seq = entry.seq)

-- verify_owner: a session that reads a log
SELECT s.id FROM share h JOIN session s ON s.session = h.session WHERE h.log = ? ORDER BY h.session LIMIT 1

-- verify_leases: what head rows say of leases
SELECT s.id, h.lease FROM head h LEFT JOIN session s ON s.session = h.session WHERE h.lease IS NOT NULL

-- verify_inbox: every message that waits
SELECT s.id, i.session, i.number, i.at, i.tokens, i.key, i.body, i.seal
FROM   inbox i
LEFT JOIN session s ON s.session = i.session

-- verify_queued: inboxes that hold more or less than their head row says
SELECT s.id, h.queued, count(i.number)
FROM   head h
LEFT JOIN inbox i   ON i.session = h.session
LEFT JOIN session s ON s.session = h.session
GROUP BY h.session
HAVING h.queued <> count(i.number)

-- verify_drafts: every draft, how many pieces it has, and the number of the last
SELECT s.id, d.draft, d.session, d.at, d.role, d.key, d.writer, d.seal,
       (SELECT count(*) FROM chunk c WHERE c.draft = d.draft),
       (SELECT coalesce(max(number), 0) FROM chunk c WHERE c.draft = d.draft)
FROM   draft d
LEFT JOIN session s ON s.session = d.session

-- verify_chunks: every piece of every draft
SELECT s.id, c.draft, c.number, c.text, c.seal
FROM   chunk c
LEFT JOIN draft d   ON d.draft = c.draft
LEFT JOIN session s ON s.session = d.session

-- verify_life_strays: rows that belong to nothing
SELECT (SELECT count(*) FROM inbox WHERE session NOT IN (SELECT session FROM session)),
       (SELECT count(*) FROM draft WHERE session NOT IN (SELECT session FROM session)),
       (SELECT count(*) FROM chunk WHERE draft   NOT IN (SELECT draft   FROM draft))
