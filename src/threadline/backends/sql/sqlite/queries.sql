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
INSERT INTO session (tree, namespace, id, key, created_at, cwd, agent, origin, parent, call_id, about, seal)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- insert_head: its hot half
INSERT INTO head (session, namespace, child, log, status, opened, updated_at,
                  head, chain, view, shown, total, open, asked, pending, messages, tokens, seal)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- insert_share: a stretch of a log that a session reads
INSERT INTO share (session, first, last, log, seal) VALUES (?, ?, ?, ?, ?)

-- lineage: where a session's entries lie, with what seals each row: a damaged one would lead to another session's entries
SELECT log, first, last, session, seal FROM share WHERE session = ? ORDER BY first

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
SELECT tree, namespace, id, key, created_at, origin, parent, about FROM session WHERE session = ?

-- set_about: what is said of a session, anew
UPDATE session SET cwd = ?, agent = ?, parent = ?, call_id = ?, about = ?, seal = ? WHERE session = ?

-- insert_tag: found by listings
INSERT INTO tag (namespace, tag, session) VALUES (?, ?, ?)

-- delete_tag: no longer found by it
DELETE FROM tag WHERE namespace = ? AND tag = ? AND session = ?

-- insert_key: what an idempotency key stands for
INSERT INTO key (log, key, seq, count, identity, seal) VALUES (?, ?, ?, ?, ?, ?)

-- find_key: the call of a key, in the own log or in what is shared; also where only the digest of the key is left
SELECT key.seq, key.count, key.identity
FROM   share
JOIN   key ON key.log = share.log AND key.key IN (?, ?)
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

-- child_by_call: the session that a tool call spawned
SELECT session, tree, id, key
FROM   session
WHERE  session = (SELECT session FROM session WHERE parent = ?1 AND call_id = ?2)
AND    +parent = ?1 AND +call_id = ?2

-- parent: the session that spawned one
SELECT p.session, p.tree, p.id, p.key
FROM   session c
JOIN   session p ON p.session = c.parent
WHERE  c.session = ?

-- children: the sessions that one spawned, oldest first. None of them shares a log at its beginning
SELECT s.session, s.tree, s.id, s.key, h.log
FROM   session s
JOIN   head h ON h.session = s.session
WHERE  s.parent = ?
ORDER BY s.session

-- below: a session and all below it, parents before their children, oldest first
WITH RECURSIVE below (session, depth) AS (
    SELECT ?, 0
    UNION ALL
    SELECT c.session, below.depth + 1 FROM below JOIN session c ON c.parent = below.session
    ORDER BY 2, 1
)
SELECT s.session, s.id, s.key, s.about, h.status, s.created_at, h.updated_at, h.queued, h.lease,
       h.head, h.chain, h.view, h.shown, h.total, h.open, h.asked, h.pending, h.messages, h.tokens
FROM   below
CROSS JOIN session s ON s.session = below.session
CROSS JOIN head h ON h.session = s.session

-- set_child: whether listings of roots leave it out
UPDATE head SET child = ? WHERE session = ?

-- idle: roots that nobody has changed for a while, nor anything below them
SELECT s.session, s.tree, s.id, s.key
FROM   head h
CROSS JOIN session s ON s.session = h.session
WHERE  h.namespace = ?1 AND h.child = 0 AND h.updated_at < ?2 AND h.status = 0
AND    NOT EXISTS (
    WITH RECURSIVE below (session) AS (
        SELECT c.session FROM session c WHERE c.parent = h.session
        UNION ALL
        SELECT c.session FROM below JOIN session c ON c.parent = below.session
    )
    SELECT 1 FROM below JOIN head b ON b.session = below.session WHERE b.updated_at >= ?2
)
ORDER BY h.updated_at, h.session

-- delete_session: what is said of it
DELETE FROM session WHERE session = ?

-- delete_head: its hot half
DELETE FROM head WHERE session = ?

-- delete_shares: its lineage
DELETE FROM share WHERE session = ?

-- reach: how far a log is read by anybody; NULL where by nobody
SELECT max(last) FROM share WHERE log = ?

-- cut_entries: those that nobody reads any more
DELETE FROM entry WHERE log = ? AND seq > ?

-- cut_keys: those of calls that nobody knows any more
DELETE FROM key WHERE log = ? AND seq > ?

-- cut_blob_uses: those of entries that are gone
DELETE FROM blob_use WHERE log = ? AND seq > ?

-- delete_unused_blobs: large parts of a tree that no entry uses any more
DELETE FROM blob
WHERE  tree = ?
AND    NOT EXISTS (SELECT 1 FROM blob_use u WHERE u.tree = blob.tree AND u.name = blob.name)

-- delete_inbox: messages that nobody will take
DELETE FROM inbox WHERE session = ?

-- delete_draft_chunks: the text of drafts that nobody will keep
DELETE FROM chunk WHERE draft IN (SELECT draft FROM draft WHERE session = ?)

-- delete_drafts: and the drafts
DELETE FROM draft WHERE session = ?

-- delete_log: its entries are gone
DELETE FROM log WHERE log = ?

-- find_request: a request that was recorded before, by whomever of the tree
SELECT request, session, tree, namespace, id, at, model, agent,
       input, output, cache_read, cache_write, reasoning, cost, given, seal
FROM   request
WHERE  request = (SELECT request FROM request WHERE tree = ?1 AND id = ?2)
AND    +tree = ?1 AND +id = ?2

-- insert_request: what a request took
INSERT INTO request (tree, namespace, session, id, at, model, agent,
                     input, output, cache_read, cache_write, reasoning, cost, given, seal)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- grow_request: a larger snapshot of it
UPDATE request
SET    model = ?, input = ?, output = ?, cache_read = ?, cache_write = ?, reasoning = ?, cost = ?, given = ?, seal = ?
WHERE  request = ?

-- add_spent: more, or less, of a sum
INSERT INTO spent (session, day, model, agent, priced, namespace,
                   requests, input, output, cache_read, cache_write, reasoning, cost)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE
SET    requests = requests + excluded.requests, input = input + excluded.input, output = output + excluded.output,
       cache_read = cache_read + excluded.cache_read, cache_write = cache_write + excluded.cache_write,
       reasoning = reasoning + excluded.reasoning, cost = cost + excluded.cost

-- drop_spent: a sum of nothing
DELETE FROM spent WHERE session = ? AND day = ? AND model = ? AND agent = ? AND priced = ? AND requests = 0

-- inherit_requests: a parent is charged for what its deleted child took
UPDATE request SET session = ? WHERE session = ?

-- inherit_spent: and its sums grow by those of the child
INSERT INTO spent (session, day, model, agent, priced, namespace,
                   requests, input, output, cache_read, cache_write, reasoning, cost)
SELECT ?, day, model, agent, priced, namespace, requests, input, output, cache_read, cache_write, reasoning, cost
FROM   spent
WHERE  session = ?
ON CONFLICT DO UPDATE
SET    requests = requests + excluded.requests, input = input + excluded.input, output = output + excluded.output,
       cache_read = cache_read + excluded.cache_read, cache_write = cache_write + excluded.cache_write,
       reasoning = reasoning + excluded.reasoning, cost = cost + excluded.cost

-- delete_requests: of a session without a parent
DELETE FROM request WHERE session = ?

-- delete_spent: the sums of a session
DELETE FROM spent WHERE session = ?

-- requests: a page of a session's requests, oldest first
SELECT request, tree, namespace, id, at, model, agent,
       input, output, cache_read, cache_write, reasoning, cost, given, seal
FROM   request
WHERE  session = ? AND (at, request) > (?, ?)
ORDER BY at, request
LIMIT  ?

-- spent: what a session took, by model. The cost is added up in two halves, which cannot overflow
SELECT model, priced, sum(requests), sum(input), sum(output), sum(cache_read), sum(cache_write), sum(reasoning),
       sum(cost / 1000000000), sum(cost % 1000000000)
FROM   spent
WHERE  session = ?
GROUP BY model, priced

-- spent_below: the same of a session and all below it
WITH RECURSIVE below (session) AS (
    SELECT ?
    UNION ALL
    SELECT c.session FROM below JOIN session c ON c.parent = below.session
)
SELECT model, priced, sum(requests), sum(input), sum(output), sum(cache_read), sum(cache_write), sum(reasoning),
       sum(cost / 1000000000), sum(cost % 1000000000)
FROM   below
CROSS JOIN spent ON spent.session = below.session
GROUP BY model, priced

-- spent_by_each: the same of several sessions, each by itself
SELECT spent.session, model, priced, sum(requests), sum(input), sum(output), sum(cache_read), sum(cache_write),
       sum(reasoning), sum(cost / 1000000000), sum(cost % 1000000000)
FROM   json_each(?) few
CROSS JOIN spent ON spent.session = few.value
GROUP BY spent.session, model, priced

-- spent_on_days: what a namespace took on whole days, grouped as asked for
SELECT CASE WHEN :by_session THEN t.session END, CASE WHEN :by_day THEN t.day END, CASE WHEN :by_agent THEN t.agent END,
       t.model, t.priced, sum(t.requests), sum(t.input), sum(t.output), sum(t.cache_read), sum(t.cache_write),
       sum(t.reasoning), sum(t.cost / 1000000000), sum(t.cost % 1000000000)
FROM   spent t
WHERE  t.namespace = :namespace AND t.day >= :first AND t.day < :last
AND    (:agent IS NULL OR t.agent = :agent)
AND    (:cwd   IS NULL OR EXISTS (SELECT 1 FROM session s WHERE s.session = t.session AND s.cwd = :cwd))
AND    (:tag   IS NULL OR EXISTS (SELECT 1 FROM tag
                                  WHERE tag.namespace = :namespace AND tag.tag = :tag AND tag.session = t.session))
GROUP BY 1, 2, 3, 4, 5

-- spent_within_a_day: what it took in a part of one day, from the requests themselves
SELECT CASE WHEN :by_session THEN t.session END, CASE WHEN :by_day THEN :day END, CASE WHEN :by_agent THEN t.agent END,
       t.model, t.cost IS NOT NULL, count(*), sum(t.input), sum(t.output), sum(t.cache_read), sum(t.cache_write),
       sum(t.reasoning), sum(coalesce(t.cost, 0) / 1000000000), sum(coalesce(t.cost, 0) % 1000000000)
FROM   request t
WHERE  t.namespace = :namespace AND t.at >= :since AND t.at < :until
AND    (:agent IS NULL OR t.agent = :agent)
AND    (:cwd   IS NULL OR EXISTS (SELECT 1 FROM session s WHERE s.session = t.session AND s.cwd = :cwd))
AND    (:tag   IS NULL OR EXISTS (SELECT 1 FROM tag
                                  WHERE tag.namespace = :namespace AND tag.tag = :tag AND tag.session = t.session))
GROUP BY 1, 2, 3, 4, 5

-- ids: the names of sessions
SELECT s.session, s.id FROM json_each(?) few CROSS JOIN session s ON s.session = few.value

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
AND    h.child = :child
AND    (h.updated_at, h.session) < (:at, :number)
AND    (:status  IS NULL OR h.status = :status)
AND    (:waiting IS NULL OR (h.pending > 0 OR h.asked > 0 OR h.queued > 0) = :waiting)
AND    (:before  IS NULL OR h.updated_at < :before)
AND    (:cwd     IS NULL OR s.cwd = :cwd)
AND    (:agent   IS NULL OR s.agent = :agent)
AND    (:parent  IS NULL OR s.parent = :parent)
AND    (:prefix  IS NULL OR (s.key >= :prefix AND s.key < :prefix_end))
AND    (:begins  IS NULL OR (s.id >= :begins AND s.id < :begins_end))
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
AND    (s.parent IS NOT NULL) = :child
AND    (s.created_at, s.session) < (:at, :number)
AND    (:status  IS NULL OR h.status = :status)
AND    (:waiting IS NULL OR (h.pending > 0 OR h.asked > 0 OR h.queued > 0) = :waiting)
AND    (:before  IS NULL OR h.updated_at < :before)
AND    (:cwd     IS NULL OR s.cwd = :cwd)
AND    (:agent   IS NULL OR s.agent = :agent)
AND    (:parent  IS NULL OR s.parent = :parent)
AND    (:prefix  IS NULL OR (s.key >= :prefix AND s.key < :prefix_end))
AND    (:begins  IS NULL OR (s.id >= :begins AND s.id < :begins_end))
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
AND    (:child   IS NULL OR h.child = :child)
AND    (:status  IS NULL OR h.status = :status)
AND    (:waiting IS NULL OR (h.pending > 0 OR h.asked > 0 OR h.queued > 0) = :waiting)
AND    (:before  IS NULL OR h.updated_at < :before)
AND    (:cwd     IS NULL OR s.cwd = :cwd)
AND    (:agent   IS NULL OR s.agent = :agent)
AND    (:parent  IS NULL OR s.parent = :parent)
AND    (:prefix  IS NULL OR (s.key >= :prefix AND s.key < :prefix_end))
AND    (:begins  IS NULL OR (s.id >= :begins AND s.id < :begins_end))
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

-- few_by_parent: the children of a session, if they are few
SELECT session FROM session WHERE parent = :parent LIMIT :few

-- few_by_prefix: the sessions whose key begins so, if they are few
SELECT session FROM session WHERE namespace = :namespace AND key >= :prefix AND key < :prefix_end LIMIT :few

-- few_by_begins: the sessions whose id begins so, if they are few
SELECT session FROM session WHERE namespace = :namespace AND id >= :begins AND id < :begins_end LIMIT :few

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

-- originals: every session in the order they were made, for a copy of the store
SELECT s.session, s.tree, s.id, s.key, s.namespace, s.created_at, h.updated_at, h.status, s.about, s.origin, s.parent
FROM   session s
JOIN   head h ON h.session = s.session
WHERE  s.session > ?
ORDER BY s.session
LIMIT  ?

-- trees: every tree, a page at a time, for an export
SELECT DISTINCT tree FROM session WHERE tree > ? ORDER BY tree LIMIT 1000

-- family: the sessions of a tree in the order they were made, for an export
SELECT s.session, s.tree, s.id, s.key, s.namespace, s.created_at, h.updated_at, h.status, s.about, s.origin, s.parent
FROM   session s
JOIN   head h ON h.session = s.session
WHERE  s.tree = ?
ORDER BY s.session

-- keys_after: the idempotency keys of a log from an entry on
SELECT key, seq, count, identity FROM key WHERE log = ? AND seq > ? ORDER BY seq

-- counts: for stats
SELECT (SELECT count(*) FROM session), (SELECT count(*) FROM log), (SELECT count(*) FROM blob), (SELECT count(*) FROM owed)

-- extent: how far entries and logs are numbered
SELECT (SELECT coalesce(max(entry), 0) FROM entry), (SELECT coalesce(max(log), 0) FROM log)

-- entries_of_logs: for stats, a part at a time, from the index alone
SELECT count(*) FROM entry WHERE log > ? AND log <= ?

-- data_version: another number after another connection committed
PRAGMA data_version

-- schema: what the tables and indexes are
SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name

-- verify_file: what SQLite itself can tell of its pages and indexes
PRAGMA integrity_check(1000)

-- verify_numbers: every session of which there is a trace
SELECT session FROM session UNION SELECT session FROM head ORDER BY 1

-- verify_session: all that is said of a session
SELECT tree, namespace, id, key, created_at, cwd, agent, origin, parent, call_id, about, seal
FROM   session
WHERE  session = ?

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

-- verify_ownerless: logs that outlived their session, and a session that reads as far into each as anybody does
SELECT log, session, first, max(last) FROM share WHERE log NOT IN (SELECT log FROM head) GROUP BY log

-- verify_children: every child beside its parent, in one look, so that no deletion comes in between
SELECT c.id, c.about, c.call_id, p.id, p.about, p.tree = c.tree AND p.namespace = c.namespace, h.child
FROM   session c
LEFT JOIN session p ON p.session = c.parent
LEFT JOIN head h    ON h.session = c.session
WHERE  c.parent IS NOT NULL

-- verify_roots: sessions without a parent that listings take for children
SELECT s.id FROM session s JOIN head h ON h.session = s.session WHERE s.parent IS NULL AND h.child <> 0

-- verify_requests: every request, and the session that is charged
SELECT r.tree, r.namespace, r.id, r.at, r.model, r.agent, r.input, r.output, r.cache_read, r.cache_write, r.reasoning,
       r.cost, r.given, r.seal, s.id, s.tree = r.tree AND s.namespace = r.namespace
FROM   request r
LEFT JOIN session s ON s.session = r.session

-- verify_spent: sums that are not those of the requests, and sums that are missing, in one look
WITH sums AS (
    SELECT session, (at - ((at % 86400000000) + 86400000000) % 86400000000) / 86400000000, model, agent,
           cost IS NOT NULL, namespace, count(*), sum(input), sum(output), sum(cache_read), sum(cache_write),
           sum(reasoning), sum(coalesce(cost, 0))
    FROM   request
    GROUP BY 1, 2, 3, 4, 5, 6
)
SELECT session, day FROM (SELECT * FROM spent EXCEPT SELECT * FROM sums)
UNION
SELECT * FROM (SELECT session, 0 FROM (SELECT * FROM sums EXCEPT SELECT * FROM spent))

-- verify_keys: each idempotency key, its session, and how many of its entries carry it
SELECT k.log, k.key, k.seq, k.count, k.identity, k.seal, s.id,
       (SELECT max(last) FROM share WHERE share.log = k.log),
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
       (SELECT count(*) FROM tag   WHERE session NOT IN (SELECT session FROM session)),
       (SELECT count(*) FROM spent WHERE session NOT IN (SELECT session FROM session)),
       (SELECT count(*) FROM key   WHERE log     NOT IN (SELECT log     FROM log))

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
