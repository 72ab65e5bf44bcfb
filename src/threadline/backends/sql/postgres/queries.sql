-- Every statement that threadline runs on PostgreSQL, by name. Values are always bound.

-- append: the common case in one round trip: one entry, no tools, in a session that has its opening words
SELECT threadline.append(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)

-- write: append anything, in one round trip: any number of calls and entries
SELECT threadline.write(%s, %s, %s, %s, %s, %s::bytea[], %s::bytea[], %s::bigint[], %s::bigint[],
                        %s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bytea[],
                        %s::bytea[], %s::bytea[], %s::bigint[], %s::boolean[], %s::bytea[],
                        %s::bigint[], %s::bigint[], %s::bytea[])

-- write_more: the same with large strings out of line, and what requests took
SELECT threadline.write(%s, %s, %s, %s, %s, %s::bytea[], %s::bytea[], %s::bigint[], %s::bigint[],
                        %s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bytea[],
                        %s::bytea[], %s::bytea[], %s::bigint[], %s::boolean[], %s::bytea[],
                        %s::bigint[], %s::bigint[], %s::bytea[],
                        %s::bytea[], %s::bigint[], %s::bytea[], %s::bigint[], %s::bytea[],
                        %s::bigint[], %s::bytea[], %s::bigint[], %s::bytea[], %s::bytea[], %s::bigint[], %s::bigint[],
                        %s::bigint[])

-- durably: a transaction keeps what the caller was promised, whatever this connection was told before; nobody waits for
-- it for ever, and if its client hangs, it ends
SELECT set_config('synchronous_commit',
                  CASE WHEN NOT %s THEN 'off' WHEN current_setting('synchronous_commit') = 'off' THEN 'on'
                       ELSE current_setting('synchronous_commit') END, true),
       set_config('lock_timeout', coalesce(nullif(current_setting('lock_timeout'), '0'), '30s'), true),
       set_config('idle_in_transaction_session_timeout', '60s', true)

-- head: what is true now
SELECT realm, log, status, opened, updated_at,
       head, chain, view, shown, total, open, asked, pending, messages, tokens
FROM   threadline.head
WHERE  tree = %s AND session = %s

-- lock: the same and its lease, and nobody else writes to the session until the transaction ends
SELECT realm, log, status, opened, updated_at,
       head, chain, view, shown, total, open, asked, pending, messages, tokens, lease
FROM   threadline.head
WHERE  tree = %s AND session = %s
FOR UPDATE

-- insert_entry: one line of the log
INSERT INTO threadline.entry (tree, log, seq, kind, at, tokens, voice, view, shown, total, open, asked,
                              digest, chain, key, usage, open_ids, body, open_pending, open_below, open_seqs, open_starts)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)

-- move_head: after the entries of a write
UPDATE threadline.head
SET    opened = %s, updated_at = %s,
       head = %s, chain = %s, view = %s, shown = %s, total = %s, open = %s, asked = %s, pending = %s, messages = %s,
       tokens = %s, seal = %s, late = threadline.late(%s)
WHERE  tree = %s AND session = %s

-- set_status: a change that is not an entry
UPDATE threadline.head
SET    status = %s, updated_at = %s, seal = %s, late = threadline.late(%s)
WHERE  tree = %s AND session = %s

-- row: one entry
SELECT seq, kind, at, tokens, voice, view, shown, total, open, asked, digest, chain, key, usage,
       open_ids, body, open_pending, open_below, open_seqs, open_starts
FROM   threadline.entry
WHERE  tree = %s AND log = %s AND seq = %s

-- shown: how many visible entries there are up to one
SELECT shown FROM threadline.entry WHERE tree = %s AND log = %s AND seq = %s

-- rows: a page of entries
SELECT seq, kind, at, tokens, voice, view, shown, total, open, asked, digest, chain, key, usage,
       open_ids, body, open_pending, open_below, open_seqs, open_starts
FROM   threadline.entry
WHERE  tree = %s AND log = %s AND seq BETWEEN %s AND %s
ORDER BY seq
LIMIT  %s

-- rows_reverse: a page of entries, latest first
SELECT seq, kind, at, tokens, voice, view, shown, total, open, asked, digest, chain, key, usage,
       open_ids, body, open_pending, open_below, open_seqs, open_starts
FROM   threadline.entry
WHERE  tree = %s AND log = %s AND seq BETWEEN %s AND %s
ORDER BY seq DESC
LIMIT  %s

-- last_of_kind: the last entry of kind state or goal up to one; both terms, or the index would not be used
SELECT seq
FROM   threadline.entry
WHERE  tree = %s AND log = %s AND kind = %s AND kind IN ('state', 'goal') AND seq <= %s
ORDER BY seq DESC
LIMIT  1

-- clock: the time at the place of a session, for its leases
SELECT threadline.clock() FROM threadline.head WHERE tree = %s AND session = %s

-- set_lease: who may write to a session, anew
UPDATE threadline.head SET lease = %s WHERE tree = %s AND session = %s

-- last_queued: the number of the last message in an inbox
SELECT coalesce(max(number), 0) FROM threadline.inbox WHERE tree = %s AND session = %s

-- insert_queued: a message for the inbox
INSERT INTO threadline.inbox (tree, session, number, at, tokens, key, body, seal)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s)

-- queued: an inbox, in order
SELECT tree, session, number, at, tokens, key, body, seal
FROM   threadline.inbox
WHERE  tree = %s AND session = %s
ORDER BY number

-- next_queued: the message whose turn it is after one
SELECT tree, session, number, at, tokens, key, body, seal
FROM   threadline.inbox
WHERE  tree = %s AND session = %s AND number > %s
ORDER BY number
LIMIT  1

-- queued_by_key: the message of a key, while it waits
SELECT tree, session, number, at, tokens, key, body, seal
FROM   threadline.inbox
WHERE  tree = %s AND session = %s AND key = %s

-- delete_queued: a message that was taken
DELETE FROM threadline.inbox WHERE tree = %s AND session = %s AND number = %s

-- fill_inbox: one more message waits
UPDATE threadline.head
SET    queued = queued + 1, updated_at = %s, seal = %s, late = threadline.late(%s)
WHERE  tree = %s AND session = %s

-- drain_inbox: so many less
UPDATE threadline.head SET queued = queued - %s WHERE tree = %s AND session = %s

-- delete_inbox: messages that nobody will take
DELETE FROM threadline.inbox WHERE tree = %s AND session = ANY(%s::bigint[])

-- claim: the advisory lock of a writer of drafts
SELECT pg_advisory_xact_lock(%s)

-- lives: whether somebody holds the advisory lock of a draft's writer. Those who ask share it, and are not in each other's
-- way; who writes has all of it
SELECT NOT pg_try_advisory_xact_lock_shared(%s)

-- insert_draft: a message begins to stream
INSERT INTO threadline.draft (tree, session, draft, at, role, key, writer, seal)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s)

-- lock_draft: one of them, and nobody adds to it until the transaction ends
SELECT tree, session, draft, at, role, key, writer FROM threadline.draft WHERE tree = %s AND draft = %s FOR UPDATE

-- lock_drafts: those of a session, likewise
SELECT draft FROM threadline.draft WHERE tree = %s AND session = ANY(%s::bigint[]) ORDER BY draft FOR UPDATE

-- drafts: those of a session with their pieces, in one look
SELECT d.tree, d.session, d.draft, d.at, d.role, d.key, d.writer, d.seal, c.number, c.text, c.seal
FROM   threadline.draft d
LEFT JOIN threadline.chunk c ON c.tree = d.tree AND c.draft = d.draft
WHERE  d.tree = %s AND d.session = %s
ORDER BY d.at, d.draft, c.number

-- set_draft_writer: its writer let go of it
UPDATE threadline.draft SET writer = NULL, seal = %s WHERE tree = %s AND draft = %s

-- delete_draft: it ended
DELETE FROM threadline.draft WHERE tree = %s AND draft = %s

-- share_draft: nobody ends it until the transaction does
SELECT 1 FROM threadline.draft WHERE tree = %s AND draft = %s FOR KEY SHARE

-- insert_chunk: the next piece of a draft, if it is there and ours; again, if nobody knows whether it was stored
INSERT INTO threadline.chunk (tree, draft, number, text, seal)
SELECT d.tree, d.draft, %s, %s, %s
FROM   threadline.draft d
WHERE  d.tree = %s AND d.draft = %s AND d.writer = %s
ON CONFLICT (tree, draft, number) DO UPDATE SET text = excluded.text, seal = excluded.seal

-- delete_chunks: the text of a draft that ended
DELETE FROM threadline.chunk WHERE tree = %s AND draft = %s

-- delete_draft_chunks: the text of drafts that nobody will keep
DELETE FROM threadline.chunk c
USING  threadline.draft d
WHERE  d.tree = %s AND d.session = ANY(%s::bigint[]) AND c.tree = d.tree AND c.draft = d.draft

-- delete_drafts: and the drafts
DELETE FROM threadline.draft WHERE tree = %s AND session = ANY(%s::bigint[])

-- heads: where many sessions stand
SELECT session, head FROM threadline.head WHERE tree = ANY(%s::bytea[]) AND session = ANY(%s::bigint[])

-- now: the time here, for those who follow
SELECT threadline.clock()

-- changed: the sessions of a namespace whose time has moved on, and those that were written long after it
SELECT tree, session, updated_at FROM threadline.head
WHERE  realm = %(realm)s AND child IN (0, 1) AND updated_at > %(at)s
UNION
SELECT tree, session, updated_at FROM threadline.head WHERE realm = %(realm)s AND late > %(at)s

-- listen: wake up when somebody committed, and let everybody know that somebody listens
LISTEN threadline

-- say_that_one_follows: as long as the connection lives
SELECT pg_advisory_lock_shared(%s)

-- notify_followers: if there are any
SELECT pg_notify('threadline', '') WHERE NOT pg_try_advisory_xact_lock(%s)

-- reserve: a place for an id or a key, unless it has one
INSERT INTO threadline.name (name, realm, tree, session, id) VALUES (%s, %s, %s, %s, %s) ON CONFLICT (name) DO NOTHING

-- reserved: the place of an id or a key
SELECT tree, session, id FROM threadline.name WHERE name = %s

-- reserve_anew: another place, because a session of another id or key stands at the old one
UPDATE threadline.name
SET    tree = %s, session = %s, id = %s
WHERE  name = %s AND tree = %s AND session = %s

-- insert_log: where the entries of a new session go
INSERT INTO threadline.log (tree, log, salt) VALUES (%s, %s, %s)

-- salt: where a chain begins
SELECT salt FROM threadline.log WHERE tree = %s AND log = %s

-- insert_session: what is said of a new session
INSERT INTO threadline.session (tree, session, realm, namespace, id, key, created_at, cwd, agent, origin, nth, parent,
                                call_id, about, seal, preview, preview_seq, preview_role)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)

-- insert_head: its hot half
INSERT INTO threadline.head (tree, session, realm, child, log, status, opened, updated_at,
                             head, chain, view, shown, total, open, asked, pending, messages, tokens, seal, late)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, threadline.late(%s))

-- insert_share: a stretch of a log that a session reads
INSERT INTO threadline.share (tree, session, first, last, log, seal) VALUES (%s, %s, %s, %s, %s, %s)

-- ref: a session, and where its entries lie
SELECT s.id, s.key, s.namespace, p.log, p.first, p.last
FROM   threadline.session s
JOIN   threadline.share p ON p.tree = s.tree AND p.session = s.session
WHERE  s.tree = %s AND s.session = %s
ORDER BY p.first

-- forks: the sessions that were forked from one, oldest first
SELECT session FROM threadline.session WHERE tree = %s AND origin = %s ORDER BY nth

-- next_fork: which fork the next one will be; asked while the head of its origin is locked
SELECT coalesce(max(nth), 0) + 1 FROM threadline.session WHERE tree = %s AND origin = %s

-- about: what is said of a session
SELECT realm, namespace, id, key, created_at, origin, nth, parent, call_id, about, preview, preview_seq, preview_role
FROM   threadline.session
WHERE  tree = %s AND session = %s

-- set_about: what is said of a session, anew
UPDATE threadline.session
SET    cwd = %s, agent = %s, nth = %s, parent = %s, call_id = %s, about = %s, seal = %s, preview = %s, preview_seq = %s, preview_role = %s
WHERE  tree = %s AND session = %s

-- insert_tag: found by listings
INSERT INTO threadline.tag (tree, session, tag, realm) VALUES (%s, %s, %s, %s)

-- delete_tag: no longer found by it
DELETE FROM threadline.tag WHERE tree = %s AND session = %s AND tag = %s

-- insert_key: what an idempotency key stands for
INSERT INTO threadline.key (tree, log, key, seq, count, identity, seal) VALUES (%s, %s, %s, %s, %s, %s, %s)

-- find_key: the call of a key, in the own log or in what is shared; also where only the digest of the key is left
SELECT k.seq, k.count, k.identity
FROM   threadline.share s
JOIN   threadline.key k ON k.tree = s.tree AND k.log = s.log AND k.key IN (%s, %s)
                       AND k.seq >= s.first AND k.seq + k.count - 1 <= s.last
WHERE  s.tree = %s AND s.session = %s

-- find_keys: the calls of several keys
SELECT k.key, k.seq, k.count, k.identity
FROM   threadline.share s
JOIN   threadline.key k ON k.tree = s.tree AND k.log = s.log AND k.key = ANY (%s)
                       AND k.seq >= s.first AND k.seq + k.count - 1 <= s.last
WHERE  s.tree = %s AND s.session = %s

-- record: a session as it is now
SELECT s.session, s.id, s.key, s.about, s.preview, s.preview_seq, s.preview_role, h.status, s.created_at, h.updated_at,
       {sums},
       h.head, h.chain, h.view, h.shown, h.total, h.open, h.asked, h.pending, h.messages, h.tokens,
       h.queued, h.lease, threadline.clock()
FROM   threadline.session s
JOIN   threadline.head h ON h.tree = s.tree AND h.session = s.session
WHERE  s.tree = %(tree)s AND h.tree = %(tree)s AND s.session = %(session)s

-- records: some sessions, likewise, as a listing has them
SELECT s.tree, s.session, s.id, s.key, s.about, s.preview, s.preview_seq, s.preview_role, h.status, s.created_at, h.updated_at,
       h.head, h.chain, h.view, h.shown, h.total, h.open, h.asked, h.pending, h.messages, h.tokens,
       h.queued, h.lease, threadline.clock()
FROM   unnest(%(trees)s::bytea[], %(sessions)s::bigint[]) AS w (tree, session)
JOIN   threadline.session s ON s.tree = w.tree AND s.session = w.session
JOIN   threadline.head h ON h.tree = s.tree AND h.session = s.session

-- list_by_updated: a page of sessions, the latest change first; the page is cut out before the rest is joined to it
SELECT s.tree, s.session, s.id, s.key, s.about, s.preview, s.preview_seq, s.preview_role, h.status, s.created_at, h.updated_at,
       h.head, h.chain, h.view, h.shown, h.total, h.open, h.asked, h.pending, h.messages, h.tokens,
       h.queued, h.lease, threadline.clock()
FROM   (SELECT * FROM threadline.head h
        WHERE  h.realm = %(realm)s AND h.child = %(child)s
        AND    (h.updated_at, h.session) < (%(at)s::bigint, %(number)s::bigint)
        {head} {session}
        ORDER BY h.updated_at DESC, h.session DESC
        LIMIT  %(limit)s) h
JOIN   threadline.session s ON s.tree = h.tree AND s.session = h.session
ORDER BY h.updated_at DESC, h.session DESC

-- list_by_created: a page of sessions, the youngest first; likewise
SELECT s.tree, s.session, s.id, s.key, s.about, s.preview, s.preview_seq, s.preview_role, h.status, s.created_at, h.updated_at,
       h.head, h.chain, h.view, h.shown, h.total, h.open, h.asked, h.pending, h.messages, h.tokens,
       h.queued, h.lease, threadline.clock()
FROM   (SELECT * FROM threadline.session s
        WHERE  s.realm = %(realm)s AND (CASE WHEN s.parent IS NULL THEN 0 ELSE 1 END) = %(child)s
        AND    (s.created_at, s.session) < (%(at)s::bigint, %(number)s::bigint)
        {session} {head}
        ORDER BY s.created_at DESC, s.session DESC
        LIMIT  %(limit)s) s
JOIN   threadline.head h ON h.tree = s.tree AND h.session = s.session
ORDER BY s.created_at DESC, s.session DESC

-- with_head: of a page of sessions, those whose head is so
AND EXISTS (SELECT 1 FROM threadline.head h WHERE h.tree = s.tree AND h.session = s.session {filters})

-- with_session: of a page of heads, those of sessions that are so
AND EXISTS (SELECT 1 FROM threadline.session s WHERE s.tree = h.tree AND s.session = h.session {filters})

-- walk: of a join by tree and session the planner expects next to nothing, and would rather sort a whole namespace than
-- walk an index in order until the page is full
SELECT set_config('enable_sort', 'off', true), set_config('enable_hashjoin', 'off', true),
       set_config('enable_mergejoin', 'off', true), set_config('enable_hashagg', 'off', true),
       set_config('enable_material', 'off', true), set_config('enable_seqscan', 'off', true)

-- few_by_cwd: how many sessions of a folder there are, if they are few
SELECT count(*) FROM (SELECT 1 FROM threadline.session s
                      WHERE s.realm = %(realm)s AND sha256(s.cwd) = sha256(%(cwd)s) LIMIT %(few)s) f

-- few_by_agent: how many sessions of an agent there are, if they are few
SELECT count(*) FROM (SELECT 1 FROM threadline.session s
                      WHERE s.realm = %(realm)s AND sha256(s.agent) = sha256(%(agent)s) LIMIT %(few)s) f

-- few_by_tag: how many sessions of a tag there are, if they are few
SELECT count(*) FROM (SELECT 1 FROM threadline.tag t
                      WHERE t.realm = %(realm)s AND sha256(t.tag) = sha256(%(tag)s) LIMIT %(few)s) f

-- few_by_prefix: how many sessions there are whose key begins so, if they are few
SELECT count(*) FROM (SELECT 1 FROM threadline.session s
                      WHERE s.realm = %(realm)s AND s.key >= %(prefix)s AND s.key < %(prefix_end)s LIMIT %(few)s) f

-- few_by_begins: how many sessions there are whose id begins so, if they are few
SELECT count(*) FROM (SELECT 1 FROM threadline.session s
                      WHERE s.realm = %(realm)s AND s.id >= %(begins)s AND s.id < %(begins_end)s LIMIT %(few)s) f

-- filter_status: of a listing, which sessions
AND    h.status = %(status)s

-- filter_waiting: those with an open call, an unanswered turn or a filled inbox, or those without
AND    (h.pending > 0 OR h.asked > 0 OR h.queued > 0) = %(waiting)s

-- filter_before: those that changed before
AND    h.updated_at < %(before)s

-- filter_cwd: those of a folder
AND    s.realm = %(realm)s AND sha256(s.cwd) = sha256(%(cwd)s) AND s.cwd = %(cwd)s

-- filter_agent: those of an agent
AND    s.realm = %(realm)s AND sha256(s.agent) = sha256(%(agent)s) AND s.agent = %(agent)s

-- filter_parent: the children of one session
AND    s.tree = %(tree)s AND s.parent = %(parent)s

-- filter_prefix: those whose key begins so
AND    s.realm = %(realm)s AND s.key >= %(prefix)s AND s.key < %(prefix_end)s

-- filter_begins: those whose id begins so
AND    s.realm = %(realm)s AND s.id >= %(begins)s AND s.id < %(begins_end)s

-- filter_tag: those with a tag
AND    EXISTS (SELECT 1 FROM threadline.tag t
               WHERE t.tree = s.tree AND t.session = s.session
               AND   t.realm = %(realm)s AND sha256(t.tag) = sha256(%(tag)s) AND t.tag = %(tag)s)

-- insert_blob: a large string, once per tree
INSERT INTO threadline.blob (tree, name, size, content) VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING

-- insert_blob_use: an entry that a blob is a part of
INSERT INTO threadline.blob_use (tree, log, seq, name) VALUES (%s, %s, %s, %s)

-- blob: a large string
SELECT content FROM threadline.blob WHERE tree = %s AND name = %s

-- next_child: which child the next one will be; asked while the head of its parent is locked
SELECT coalesce(max(nth), 0) + 1 FROM threadline.session WHERE tree = %s AND parent = %s

-- child_by_call: the session that a tool call spawned
SELECT session FROM threadline.session WHERE tree = %s AND parent = %s AND call_id = %s

-- parent: the session that spawned one
SELECT p.session
FROM   threadline.session c
JOIN   threadline.session p ON p.tree = c.tree AND p.session = c.parent
WHERE  c.tree = %s AND c.session = %s

-- children: the sessions that one spawned, oldest first
SELECT session FROM threadline.session WHERE tree = %s AND parent = %s ORDER BY nth

-- below: a session and all below it, parents before their children, oldest first
WITH RECURSIVE below (session, depth, nth) AS (
    SELECT r.session, 0, 0::bigint FROM threadline.session r WHERE r.tree = %(tree)s AND r.session = %(session)s
    UNION ALL
    SELECT c.session, b.depth + 1, c.nth
    FROM   below b
    JOIN   threadline.session c ON c.parent = b.session
    WHERE  c.tree = %(tree)s
)
SELECT s.session, s.id, s.key, s.about, s.preview, s.preview_seq, s.preview_role, h.status, s.created_at, h.updated_at,
       {sums},
       h.head, h.chain, h.view, h.shown, h.total, h.open, h.asked, h.pending, h.messages, h.tokens,
       h.queued, h.lease, threadline.clock()
FROM   below b
JOIN   threadline.session s ON s.tree = %(tree)s AND s.session = b.session
JOIN   threadline.head h ON h.tree = %(tree)s AND h.session = b.session
ORDER BY b.depth, b.nth, b.session

-- family: the same, as a deletion sees them
WITH RECURSIVE below (session, depth, nth) AS (
    SELECT r.session, 0, 0::bigint FROM threadline.session r WHERE r.tree = %(tree)s AND r.session = %(session)s
    UNION ALL
    SELECT c.session, b.depth + 1, c.nth
    FROM   below b
    JOIN   threadline.session c ON c.parent = b.session
    WHERE  c.tree = %(tree)s
)
SELECT s.session, s.realm, s.namespace, s.id, s.key, s.created_at, s.origin, s.nth, s.parent, s.call_id,
       s.about, s.preview, s.preview_seq, s.preview_role
FROM   below b
JOIN   threadline.session s ON s.tree = %(tree)s AND s.session = b.session
ORDER BY b.depth, b.nth, b.session

-- youngest_below: when anything below a session changed last
WITH RECURSIVE below (session) AS (
    SELECT c.session FROM threadline.session c WHERE c.tree = %(tree)s AND c.parent = %(session)s
    UNION ALL
    SELECT c.session FROM below b JOIN threadline.session c ON c.parent = b.session WHERE c.tree = %(tree)s
)
SELECT coalesce(max(h.updated_at), 0)
FROM   below b
JOIN   threadline.head h ON h.tree = %(tree)s AND h.session = b.session

-- idle: roots that nobody has changed for a while, and whether they have children
SELECT h.tree, h.session, s.id, EXISTS (SELECT 1 FROM threadline.session c WHERE c.tree = h.tree AND c.parent = h.session)
FROM   threadline.head h
JOIN   threadline.session s ON s.tree = h.tree AND s.session = h.session
WHERE  h.realm = %s AND h.child = 0 AND h.updated_at < %s AND h.status = 0
ORDER BY h.updated_at, h.session

-- lock_tree: nobody writes to any session of a tree until the transaction ends; in one order, so that nobody is in
-- anybody's way
SELECT session, head FROM threadline.head WHERE tree = %s ORDER BY session FOR UPDATE

-- set_child: whether listings of roots leave it out
UPDATE threadline.head SET child = %s WHERE tree = %s AND session = %s

-- logs_of: the logs that some sessions read
SELECT DISTINCT log FROM threadline.share WHERE tree = %s AND session = ANY (%s::bigint[])

-- delete_tags: what listings found them by
DELETE FROM threadline.tag WHERE tree = %s AND session = ANY (%s::bigint[])

-- delete_heads: their hot halves
DELETE FROM threadline.head WHERE tree = %s AND session = ANY (%s::bigint[])

-- delete_shares: their lineages
DELETE FROM threadline.share WHERE tree = %s AND session = ANY (%s::bigint[])

-- lock_logs: nobody indexes anything of these logs until the transaction ends
SELECT 1 FROM threadline.log WHERE tree = %(tree)s AND log = ANY (%(logs)s::bigint[]) ORDER BY log FOR UPDATE

-- forget_titles: the titles of some sessions cannot be found any more; before their head rows go
DELETE FROM threadline.search x
USING  threadline.head h
WHERE  h.tree = %s AND h.session = ANY (%s::bigint[]) AND x.tree = h.tree AND x.log = h.log AND x.seq = 0

-- cut_search: what nobody reads any more cannot be found any more
DELETE FROM threadline.search x
WHERE  x.tree = %(tree)s AND x.log = ANY (%(logs)s::bigint[])
AND    x.seq > coalesce((SELECT max(s.last) FROM threadline.share s WHERE s.tree = %(tree)s AND s.log = x.log), 0)

-- cut_search_logs: how far they are indexed
DELETE FROM threadline.search_log x
WHERE  x.tree = %(tree)s AND x.log = ANY (%(logs)s::bigint[])
AND    NOT EXISTS (SELECT 1 FROM threadline.share s WHERE s.tree = %(tree)s AND s.log = x.log)

-- forget_entry: what was said in one entry cannot be found any more; lock_logs comes first
DELETE FROM threadline.search WHERE tree = %s AND log = %s AND seq = %s

-- cut_entries: those of some logs that nobody reads any more
DELETE FROM threadline.entry x
WHERE  x.tree = %(tree)s AND x.log = ANY (%(logs)s::bigint[])
AND    x.seq > coalesce((SELECT max(s.last) FROM threadline.share s WHERE s.tree = %(tree)s AND s.log = x.log), 0)

-- cut_keys: those of calls that nobody knows any more
DELETE FROM threadline.key x
WHERE  x.tree = %(tree)s AND x.log = ANY (%(logs)s::bigint[])
AND    x.seq > coalesce((SELECT max(s.last) FROM threadline.share s WHERE s.tree = %(tree)s AND s.log = x.log), 0)

-- cut_blob_uses: those of entries that are gone
DELETE FROM threadline.blob_use x
WHERE  x.tree = %(tree)s AND x.log = ANY (%(logs)s::bigint[])
AND    x.seq > coalesce((SELECT max(s.last) FROM threadline.share s WHERE s.tree = %(tree)s AND s.log = x.log), 0)

-- delete_unused_blobs: large parts of a tree that no entry uses any more
DELETE FROM threadline.blob x
WHERE  x.tree = %(tree)s
AND    NOT EXISTS (SELECT 1 FROM threadline.blob_use u WHERE u.tree = %(tree)s AND u.name = x.name)

-- close_logs: those that nobody reads any more; nobody will ever write there again
UPDATE threadline.log x
SET    salt = ''
WHERE  x.tree = %(tree)s AND x.log = ANY (%(logs)s::bigint[])
AND    NOT EXISTS (SELECT 1 FROM threadline.share s WHERE s.tree = %(tree)s AND s.log = x.log)

-- delete_sessions: what was said of them; the last of all, because whoever sees a session sees the rest
DELETE FROM threadline.session WHERE tree = %s AND session = ANY (%s::bigint[])

-- free_name: an id or a key, when its session is deleted
DELETE FROM threadline.name WHERE name = %s AND tree = %s AND session = %s

-- find_request: a request that was recorded before, by whomever of the tree; nobody else lets it grow meanwhile
SELECT request, session, tree, realm, id, at, model, agent,
       input, output, cache_read, cache_write, reasoning, cost, given, seal
FROM   threadline.request
WHERE  tree = %s AND id = %s
FOR UPDATE

-- charge: count a new request
SELECT threadline.charge(%s, %s, %s, %s, %s, %s, %s, %s::bigint[], %s, %s)

-- grow_request: a larger snapshot of it
UPDATE threadline.request
SET    model = %s, input = %s, output = %s, cache_read = %s, cache_write = %s, reasoning = %s, cost = %s, given = %s,
       seal = %s
WHERE  tree = %s AND request = %s

-- add_spent: more, or less, of a sum
SELECT threadline.add_spent(%s, %s, %s, %s, %s, %s, %s::bigint[], %s, %s)

-- inherit_requests: a parent is charged for what its deleted children took
UPDATE threadline.request SET session = %s WHERE tree = %s AND session = ANY (%s::bigint[])

-- inherit_spent: and its sums grow by theirs
INSERT INTO threadline.spent AS t (tree, session, day, priced, names, model, agent, realm,
                                   requests, input, output, cache_read, cache_write, reasoning, cost)
SELECT c.tree, %s::bigint, c.day, c.priced, c.names, c.model, c.agent, c.realm, sum(c.requests), sum(c.input), sum(c.output),
       sum(c.cache_read), sum(c.cache_write), sum(c.reasoning), sum(c.cost)
FROM   threadline.spent c
WHERE  c.tree = %s AND c.session = ANY (%s::bigint[])
GROUP BY c.tree, c.day, c.priced, c.names, c.model, c.agent, c.realm
ON CONFLICT (tree, session, day, priced, names) DO UPDATE
SET    requests = t.requests + excluded.requests, input = t.input + excluded.input,
       output = t.output + excluded.output, cache_read = t.cache_read + excluded.cache_read,
       cache_write = t.cache_write + excluded.cache_write, reasoning = t.reasoning + excluded.reasoning,
       cost = t.cost + excluded.cost

-- delete_requests: of sessions without a parent
DELETE FROM threadline.request WHERE tree = %s AND session = ANY (%s::bigint[])

-- delete_spent: the sums of sessions
DELETE FROM threadline.spent WHERE tree = %s AND session = ANY (%s::bigint[])

-- requests: a page of a session's requests, oldest first
SELECT request, tree, realm, id, at, model, agent,
       input, output, cache_read, cache_write, reasoning, cost, given, seal
FROM   threadline.request
WHERE  tree = %s AND session = %s AND (at, request) > (%s, %s)
ORDER BY at, request
LIMIT  %s

-- sums: of a session, what it took, by model: nine numbers of 8 bytes and the model, because not every server can hand on
-- rows within a row. Money is added up in two halves, which cannot overflow
ARRAY(SELECT int8send(x.priced) || int8send(sum(x.requests)::bigint) || int8send(sum(x.input)::bigint)
             || int8send(sum(x.output)::bigint) || int8send(sum(x.cache_read)::bigint)
             || int8send(sum(x.cache_write)::bigint) || int8send(sum(x.reasoning)::bigint)
             || int8send(sum(x.cost / 1000000000)::bigint) || int8send(sum(x.cost %% 1000000000)::bigint) || x.model
      FROM threadline.spent x WHERE x.tree = %(tree)s AND x.session = s.session
      GROUP BY x.model, x.priced ORDER BY x.model, x.priced)

-- spent_of: what the sessions of a listing took, by model
SELECT x.session, x.model, x.priced, sum(x.requests)::bigint, sum(x.input)::bigint, sum(x.output)::bigint,
       sum(x.cache_read)::bigint, sum(x.cache_write)::bigint, sum(x.reasoning)::bigint,
       sum(x.cost / 1000000000)::bigint, sum(x.cost %% 1000000000)::bigint
FROM   threadline.spent x
WHERE  x.tree = ANY (%s::bytea[]) AND x.session = ANY (%s::bigint[])
GROUP BY x.tree, x.session, x.model, x.priced
ORDER BY x.session, x.model, x.priced

-- spent: what a session took, by model
SELECT x.model, x.priced, sum(x.requests)::bigint, sum(x.input)::bigint, sum(x.output)::bigint, sum(x.cache_read)::bigint,
       sum(x.cache_write)::bigint, sum(x.reasoning)::bigint, sum(x.cost / 1000000000)::bigint,
       sum(x.cost %% 1000000000)::bigint
FROM   threadline.spent x
WHERE  x.tree = %(tree)s AND x.session = %(session)s
GROUP BY x.model, x.priced
ORDER BY x.model, x.priced

-- spent_below: the same of a session and all below it
WITH RECURSIVE below (session) AS (
    SELECT %(session)s::bigint
    UNION ALL
    SELECT c.session FROM below b JOIN threadline.session c ON c.parent = b.session WHERE c.tree = %(tree)s
)
SELECT x.model, x.priced, sum(x.requests)::bigint, sum(x.input)::bigint, sum(x.output)::bigint, sum(x.cache_read)::bigint,
       sum(x.cache_write)::bigint, sum(x.reasoning)::bigint, sum(x.cost / 1000000000)::bigint,
       sum(x.cost %% 1000000000)::bigint
FROM   below b
JOIN   threadline.spent x ON x.tree = %(tree)s AND x.session = b.session
GROUP BY x.model, x.priced
ORDER BY x.model, x.priced

-- spent_on_days: what a namespace took on whole days, grouped as asked for
SELECT CASE WHEN %(by_session)s THEN s.id END, CASE WHEN %(by_day)s THEN t.day END,
       CASE WHEN %(by_agent)s THEN t.agent END, t.model, t.priced, sum(t.requests)::bigint, sum(t.input)::bigint,
       sum(t.output)::bigint, sum(t.cache_read)::bigint, sum(t.cache_write)::bigint, sum(t.reasoning)::bigint,
       sum(t.cost / 1000000000)::bigint, sum(t.cost %% 1000000000)::bigint
FROM   threadline.spent t
JOIN   threadline.session s ON s.tree = t.tree AND s.session = t.session
WHERE  t.realm = %(realm)s AND t.day >= %(first)s AND t.day < %(last)s
{filters}
GROUP BY 1, 2, 3, 4, 5

-- spent_within_a_day: what it took in a part of one day, from the requests themselves
SELECT CASE WHEN %(by_session)s THEN s.id END, CASE WHEN %(by_day)s THEN %(day)s::bigint END,
       CASE WHEN %(by_agent)s THEN t.agent END, t.model, CASE WHEN t.cost IS NULL THEN 0 ELSE 1 END, count(*),
       sum(t.input)::bigint, sum(t.output)::bigint, sum(t.cache_read)::bigint, sum(t.cache_write)::bigint,
       sum(t.reasoning)::bigint, sum(coalesce(t.cost, 0) / 1000000000)::bigint,
       sum(coalesce(t.cost, 0) %% 1000000000)::bigint
FROM   threadline.request t
JOIN   threadline.session s ON s.tree = t.tree AND s.session = t.session
WHERE  t.realm = %(realm)s AND t.at >= %(since)s AND t.at < %(until)s
{filters}
GROUP BY 1, 2, 3, 4, 5

-- spent_agent: of what was spent, that of an agent
AND    t.agent = %(agent)s

-- spent_cwd: that of sessions in a folder
AND    s.cwd = %(cwd)s

-- spent_tag: that of sessions with a tag
AND    EXISTS (SELECT 1 FROM threadline.tag g
               WHERE g.tree = s.tree AND g.session = s.session AND g.realm = %(realm)s AND g.tag = %(tag)s)

-- trees: every tree, for a copy of the store
SELECT DISTINCT tree FROM threadline.session WHERE tree > %s ORDER BY tree LIMIT 1000

-- originals: the sessions of a tree, for a copy of the store
SELECT s.session, s.namespace, s.created_at, h.updated_at, h.status, s.origin, s.nth, s.parent,
       s.about, s.preview, s.preview_seq, s.preview_role
FROM   threadline.session s
JOIN   threadline.head h ON h.tree = s.tree AND h.session = s.session
WHERE  s.tree = %s

-- keys_after: the idempotency keys of a log from an entry on
SELECT key, seq, count, identity FROM threadline.key WHERE tree = %s AND log = %s AND seq > %s ORDER BY seq

-- pass_cwd: of those that a walk comes by, those of a folder; written so that no index tempts the planner from its way
AND    s.cwd = %(cwd)s

-- pass_agent: those of an agent
AND    s.agent = %(agent)s

-- pass_prefix: those whose key begins so
AND    s.key >= %(prefix)s AND s.key < %(prefix_end)s

-- pass_begins: those whose id begins so
AND    s.id >= %(begins)s AND s.id < %(begins_end)s

-- pass_tag: those with a tag
AND    EXISTS (SELECT 1 FROM threadline.tag t WHERE t.tree = s.tree AND t.session = s.session AND t.tag = %(tag)s)

-- settings: what the server promises
SELECT current_setting('server_encoding'), current_setting('fsync'), current_setting('full_page_writes')

-- there: whether the schema is there; rows and not to_regclass, whose cache may miss what was made while we waited for a lock
SELECT EXISTS (SELECT FROM pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid
               WHERE n.nspname = 'threadline' AND c.relname = 'version'),
       EXISTS (SELECT FROM pg_namespace WHERE nspname = 'threadline')

-- version: which schema it is
SELECT max(version) FROM threadline.version

-- functions: what runs on the server
SELECT p.proname::text, p.prosrc FROM pg_proc p WHERE p.pronamespace = 'threadline'::regnamespace ORDER BY 1

-- counts: for stats
SELECT s.n, l.n, b.n
FROM   (SELECT count(*) AS n FROM threadline.session) s,
       (SELECT count(*) AS n FROM threadline.blob) b,
       (SELECT count(*) AS n FROM threadline.log WHERE salt <> ''::bytea) l

-- entries_of_trees: for stats, a part at a time: those of trees whose ids begin so
SELECT count(*) FROM threadline.entry WHERE tree >= %s AND tree < %s

-- roughly: how many entries there may be, and how many rows are dead: what the server knows without looking
SELECT coalesce(sum(n_live_tup) FILTER (WHERE relname ~ '^entry'), 0)::bigint, coalesce(sum(n_dead_tup), 0)::bigint
FROM   pg_stat_user_tables
WHERE  schemaname = 'threadline'

-- sizes: for stats, partitions and indexes included
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
FROM   pg_class c
WHERE  c.relnamespace = 'threadline'::regnamespace AND c.relkind = 'r'

-- verify_trees: every session of which there is a trace, a page at a time
SELECT tree, session FROM threadline.session
WHERE  (tree, session) > (%s, %s)
UNION
SELECT tree, session FROM threadline.head
WHERE  (tree, session) > (%s, %s)
ORDER BY 1, 2
LIMIT  1000

-- verify_session: all that is said of a session
SELECT tree, session, realm, namespace, id, key, created_at, cwd, agent, origin, nth, parent, call_id, about, seal,
       preview, preview_seq, preview_role
FROM   threadline.session
WHERE  tree = %s AND session = %s

-- verify_name: where an id or a key leads
SELECT realm, tree, session, id FROM threadline.name WHERE name = %s

-- verify_tags: what listings find a session by
SELECT realm, tag FROM threadline.tag WHERE tree = %s AND session = %s

-- verify_head: the hot half of a session
SELECT realm, seal, log, status, opened, updated_at,
       head, chain, view, shown, total, open, asked, pending, messages, tokens
FROM   threadline.head
WHERE  tree = %s AND session = %s

-- verify_shares: a session's lineage
SELECT tree, session, first, last, log, seal FROM threadline.share WHERE tree = %s AND session = %s ORDER BY first

-- verify_outside: entries that no seq of the session reaches
SELECT count(*) FROM threadline.entry WHERE tree = %s AND log = %s AND (seq > %s OR seq <= %s)

-- verify_keys: the idempotency keys of a log, and how many of its entries carry each
SELECT k.tree, k.log, k.key, k.seq, k.count, k.identity, k.seal, count(e.seq)
FROM   threadline.key k
LEFT JOIN threadline.entry e ON e.tree = k.tree AND e.log = k.log AND e.key = k.key
                            AND e.seq BETWEEN k.seq AND k.seq + k.count - 1
WHERE  k.tree = %s AND k.log = %s
GROUP BY k.tree, k.log, k.key, k.seq, k.count, k.identity, k.seal

-- verify_keyless: entries of a log whose idempotency key has no row
SELECT e.seq
FROM   threadline.entry e
LEFT JOIN threadline.key k ON k.tree = e.tree AND k.log = e.log AND k.key = e.key
                          AND e.seq BETWEEN k.seq AND k.seq + k.count - 1
WHERE  e.tree = %s AND e.log = %s AND e.key IS NOT NULL AND k.key IS NULL

-- verify_lease: what the head row says of leases and of the inbox, and what the inbox holds
SELECT h.lease, h.queued, (SELECT count(*) FROM threadline.inbox i
                           WHERE  i.tree = %(tree)s AND i.session = %(session)s)
FROM   threadline.head h
WHERE  h.tree = %(tree)s AND h.session = %(session)s

-- verify_life_strays: messages, drafts and pieces of drafts that belong to nothing
SELECT i.n, d.n, c.n
FROM   (SELECT count(*) AS n FROM threadline.inbox x
        WHERE  NOT EXISTS (SELECT 1 FROM threadline.session s WHERE s.tree = x.tree AND s.session = x.session)) i,
       (SELECT count(*) AS n FROM threadline.draft x
        WHERE  NOT EXISTS (SELECT 1 FROM threadline.session s WHERE s.tree = x.tree AND s.session = x.session)) d,
       (SELECT count(*) AS n FROM threadline.chunk x
        WHERE  NOT EXISTS (SELECT 1 FROM threadline.draft y WHERE y.tree = x.tree AND y.draft = x.draft)) c

-- verify_strays: rows that belong to nothing
SELECT e.n, l.n, h.n, t.n, p.n, k.n
FROM   (SELECT count(*) AS n FROM threadline.entry x
        WHERE  NOT EXISTS (SELECT 1 FROM threadline.share s WHERE s.tree = x.tree AND s.log = x.log)) e,
       (SELECT count(*) AS n FROM threadline.log x
        WHERE  x.salt <> ''::bytea      -- else it only keeps a place closed
        AND    NOT EXISTS (SELECT 1 FROM threadline.share s WHERE s.tree = x.tree AND s.log = x.log)) l,
       (SELECT count(*) AS n FROM threadline.share x
        WHERE  NOT EXISTS (SELECT 1 FROM threadline.session s WHERE s.tree = x.tree AND s.session = x.session)) h,
       (SELECT count(*) AS n FROM threadline.tag x
        WHERE  NOT EXISTS (SELECT 1 FROM threadline.session s WHERE s.tree = x.tree AND s.session = x.session)) t,
       (SELECT count(*) AS n FROM threadline.spent x
        WHERE  NOT EXISTS (SELECT 1 FROM threadline.session s WHERE s.tree = x.tree AND s.session = x.session)) p,
       (SELECT count(*) AS n FROM threadline.key x
        WHERE  NOT EXISTS (SELECT 1 FROM threadline.log s WHERE s.tree = x.tree AND s.log = x.log AND s.salt <> ''::bytea)) k

-- verify_ownerless: logs that outlived their session, and a session that reads as far into each as anybody does
SELECT DISTINCT ON (s.tree, s.log) s.tree, s.log, s.session, s.first, s.last
FROM   threadline.share s
WHERE  NOT EXISTS (SELECT 1 FROM threadline.head h WHERE h.tree = s.tree AND h.log = s.log)
ORDER BY s.tree, s.log, s.last DESC

-- verify_children: every child beside its parent, in one look, so that no deletion comes in between
SELECT c.id, c.about, c.call_id, p.id, p.about, p.realm = c.realm, h.child
FROM   threadline.session c
LEFT JOIN threadline.session p ON p.tree = c.tree AND p.session = c.parent
LEFT JOIN threadline.head h    ON h.tree = c.tree AND h.session = c.session
WHERE  c.parent IS NOT NULL

-- verify_roots: sessions without a parent that listings take for children
SELECT s.id
FROM   threadline.session s
JOIN   threadline.head h ON h.tree = s.tree AND h.session = s.session
WHERE  s.parent IS NULL AND h.child <> 0

-- verify_requests: a page of requests, and the sessions that are charged
SELECT r.request, r.tree, r.realm, r.id, r.at, r.model, r.agent, r.input, r.output, r.cache_read, r.cache_write, r.reasoning,
       r.cost, r.given, r.seal, s.id, s.realm = r.realm
FROM   threadline.request r
LEFT JOIN threadline.session s ON s.tree = r.tree AND s.session = r.session
WHERE  (r.tree, r.request) > (%s, %s)
ORDER BY r.tree, r.request
LIMIT  1000

-- verify_spent: sessions whose sums are not those of their requests, in one look: both together, the requests taken off
SELECT DISTINCT s.id
FROM   (SELECT u.tree, u.session
        FROM   (SELECT tree, session, day, priced, names, model, agent, realm, 1 AS sums, 0 AS made, requests, input,
                       output, cache_read, cache_write, reasoning, cost
                FROM   threadline.spent
                UNION ALL
                SELECT tree, session, floor(at / 86400000000.0)::bigint, CASE WHEN cost IS NULL THEN 0 ELSE 1 END::smallint,
                       threadline.names(model, agent), model, agent, realm, 0, 1, -1, -input, -output, -cache_read,
                       -cache_write, -reasoning, -coalesce(cost, 0)
                FROM   threadline.request) u
        GROUP BY u.tree, u.session, u.day, u.priced, u.names, u.model, u.agent, u.realm
        HAVING sum(u.sums) <> 1 OR sum(u.made) = 0 OR sum(u.requests) <> 0 OR sum(u.input) <> 0 OR sum(u.output) <> 0
        OR     sum(u.cache_read) <> 0 OR sum(u.cache_write) <> 0 OR sum(u.reasoning) <> 0 OR sum(u.cost) <> 0) g
LEFT JOIN threadline.session s ON s.tree = g.tree AND s.session = g.session

-- verify_blobs: a page of large strings
SELECT tree, name, size, content FROM threadline.blob WHERE (tree, name) > (%s, %s) ORDER BY tree, name LIMIT 100

-- verify_blob_uses: where uses, blobs and entries do not match
SELECT w.what, w.tree, w.log, w.seq
FROM   (SELECT 'a large part that no entry uses' AS what, b.tree, NULL::bigint AS log, NULL::bigint AS seq
        FROM   threadline.blob b
        WHERE  NOT EXISTS (SELECT 1 FROM threadline.blob_use u WHERE u.tree = b.tree AND u.name = b.name)
        UNION ALL
        SELECT 'a large part of it is missing', u.tree, u.log, u.seq
        FROM   threadline.blob_use u
        WHERE  NOT EXISTS (SELECT 1 FROM threadline.blob b WHERE b.tree = u.tree AND b.name = u.name)
        UNION ALL
        SELECT 'a large part belongs to an entry that does not exist', u.tree, u.log, u.seq
        FROM   threadline.blob_use u
        WHERE  NOT EXISTS (SELECT 1 FROM threadline.entry e WHERE e.tree = u.tree AND e.log = u.log AND e.seq = u.seq)
        UNION ALL
        SELECT 'nothing records its large parts', e.tree, e.log, e.seq
        FROM   threadline.entry e
        WHERE  substr(e.body, 1, 1) = '\x01'
        AND    NOT EXISTS (SELECT 1 FROM threadline.blob_use u WHERE u.tree = e.tree AND u.log = e.log AND u.seq = e.seq)) w

-- reader: a session that reads a log, to name it by
SELECT s.id
FROM   threadline.share h
JOIN   threadline.session s ON s.tree = h.tree AND s.session = h.session
WHERE  h.tree = %s AND h.log = %s
ORDER BY h.session
LIMIT  1
