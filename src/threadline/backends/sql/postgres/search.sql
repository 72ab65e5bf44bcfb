-- The statements of the search index on PostgreSQL, by name. Values are always bound.

-- quickly: the index follows from the log: what a power cut takes of it is made anew
SET LOCAL synchronous_commit = off

-- begin_state: nothing of a namespace is indexed yet
INSERT INTO threadline.search_state (realm, version, at, rows, docs, terms)
VALUES (%s, %s, 0, 0, 0, 0)
ON CONFLICT (realm) DO NOTHING

-- state: how far its index is
SELECT version, at, rows, docs, terms FROM threadline.search_state WHERE realm = %s

-- lock_state: likewise; whoever indexes next waits
SELECT version, at, rows, docs, terms FROM threadline.search_state WHERE realm = %s FOR UPDATE

-- add_state: more rows, documents and terms
UPDATE threadline.search_state SET rows = rows + %s, docs = docs + %s, terms = terms + %s WHERE realm = %s

-- set_at: all changes up to a time are known
UPDATE threadline.search_state SET at = %s WHERE realm = %s

-- now: the clock of the server
SELECT threadline.clock()

-- lagging: sessions with something that is not indexed yet
SELECT h.tree, h.session, h.log, h.head, h.updated_at, coalesce(x.upto, 0), coalesce(x.seen, 0)
FROM   (SELECT tree, session, log, head, updated_at FROM threadline.head
        WHERE realm = %(realm)s AND child IN (0, 1) AND updated_at > %(at)s
        UNION
        SELECT tree, session, log, head, updated_at FROM threadline.head
        WHERE realm = %(realm)s AND late > %(at)s) h
LEFT JOIN threadline.search_log x ON x.tree = h.tree AND x.log = h.log
WHERE  x.seen IS NULL OR x.seen <> h.updated_at OR x.upto < h.head
LIMIT  %(limit)s

-- hold_log: whoever would delete anything of it waits
SELECT 1 FROM threadline.log WHERE tree = %s AND log = %s FOR SHARE

-- upto: how far a log is indexed
SELECT upto FROM threadline.search_log WHERE tree = %s AND log = %s

-- set_upto: it is farther
INSERT INTO threadline.search_log (tree, log, realm, upto, seen) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (tree, log) DO UPDATE
SET    upto = greatest(search_log.upto, excluded.upto), seen = greatest(search_log.seen, excluded.seen)

-- insert: what can be found of an entry
INSERT INTO threadline.search (tree, log, seq, realm, terms, words) VALUES (%s, %s, %s, %s, %s, %s::tsvector)
ON CONFLICT (tree, log, seq) DO UPDATE
SET    realm = excluded.realm, terms = excluded.terms, words = excluded.words

-- length: of a document
SELECT terms FROM threadline.search WHERE tree = %s AND log = %s AND seq = %s

-- delete: one
DELETE FROM threadline.search WHERE tree = %s AND log = %s AND seq = %s

-- drop_documents: all of a namespace
DELETE FROM threadline.search WHERE realm = %s

-- drop_logs: likewise
DELETE FROM threadline.search_log WHERE realm = %s

-- drop_state: likewise
DELETE FROM threadline.search_state WHERE realm = %s

-- documents: those that match
SELECT tree, log, seq, terms FROM threadline.search
WHERE  realm = %(realm)s AND words @@ %(match)s::tsquery
LIMIT  %(limit)s

-- documents_within: likewise, of some logs of a tree
SELECT tree, log, seq, terms FROM threadline.search
WHERE  realm = %(realm)s AND words @@ %(match)s::tsquery AND tree = %(tree)s AND log = ANY (%(logs)s::bigint[])
LIMIT  %(limit)s

-- estimate: how many may match
EXPLAIN (FORMAT JSON) SELECT 1 FROM threadline.search WHERE words @@ %(match)s::tsquery

-- readers: the sessions that read some logs, and may be found; whose own log it is, first
SELECT s.tree, s.log, s.session, s.first, s.last, h.log = s.log
FROM   unnest(%(trees)s::bytea[], %(logs)s::bigint[]) AS l (tree, log)
JOIN   threadline.share s ON s.tree = l.tree AND s.log = l.log
JOIN   threadline.head h ON h.tree = s.tree AND h.session = s.session
JOIN   threadline.session x ON x.tree = s.tree AND x.session = s.session
WHERE  h.realm = %(realm)s AND (%(trashed)s::boolean OR h.status < 2)
AND    (%(session)s::bigint IS NULL OR s.session = %(session)s)
AND    (%(cwd)s::bytea IS NULL OR x.cwd = %(cwd)s) AND (%(agent)s::bytea IS NULL OR x.agent = %(agent)s)
ORDER BY 1, 2, 6 DESC, 3

-- entries: some entries, wherever they lie
SELECT e.tree, e.log, e.seq, e.kind, e.at, e.tokens, e.voice, e.view, e.shown, e.total, e.open, e.asked, e.digest, e.chain,
       e.key, e.usage, e.open_ids, e.body, e.open_pending, e.open_below, e.open_seqs, e.open_starts
FROM   unnest(%(trees)s::bytea[], %(logs)s::bigint[], %(seqs)s::bigint[]) AS d (tree, log, seq)
JOIN   threadline.entry e ON e.tree = d.tree AND e.log = d.log AND e.seq = d.seq

-- titled: what is said of the session whose own log it is, and when it was made
SELECT s.about, s.preview, s.preview_seq, s.preview_role, s.created_at
FROM   threadline.head h
JOIN   threadline.session s ON s.tree = h.tree AND s.session = h.session
WHERE  h.tree = %s AND h.log = %s

-- refs: some sessions, and where their entries lie
SELECT s.session, s.tree, s.id, s.key, p.log, p.first, p.last
FROM   unnest(%(trees)s::bytea[], %(sessions)s::bigint[]) AS w (tree, session)
JOIN   threadline.session s ON s.tree = w.tree AND s.session = w.session
JOIN   threadline.share p ON p.tree = s.tree AND p.session = s.session
ORDER BY s.session, p.first

-- pieces: where the entries of a session lie
SELECT log, first, last FROM threadline.share WHERE tree = %s AND session = %s ORDER BY first

-- verify_log: how far a log is indexed, and whether its title is of the last change
SELECT h.realm, x.upto, x.seen = h.updated_at
FROM   threadline.search_log x
JOIN   threadline.head h ON h.tree = x.tree AND h.log = x.log
WHERE  x.tree = %s AND x.log = %s

-- verify_documents: the documents of a part of a log that are not what they should be; those beyond `upto` may be missing
SELECT coalesce(d.seq, e.seq)
FROM   (SELECT * FROM threadline.search
        WHERE tree = %(tree)s AND log = %(log)s AND seq BETWEEN %(first)s AND %(last)s) d
FULL JOIN unnest(%(seqs)s::bigint[], %(terms)s::integer[], %(words)s::text[]) AS e (seq, terms, words) ON e.seq = d.seq
WHERE  (d.seq IS NULL AND e.seq <= %(upto)s OR e.seq IS NULL
        OR d.realm <> %(realm)s OR d.terms <> e.terms OR d.words <> e.words::tsvector)
AND    coalesce(d.seq, e.seq) <> ALL (%(aside)s::bigint[])
ORDER BY 1

-- verify_strays: documents, and marks of how far a log is indexed, that belong to no log
SELECT d.n, m.n
FROM   (SELECT count(*) AS n FROM threadline.search s
        WHERE  NOT EXISTS (SELECT 1 FROM threadline.log l WHERE l.tree = s.tree AND l.log = s.log)) d,
       (SELECT count(*) AS n FROM threadline.search_log s
        WHERE  NOT EXISTS (SELECT 1 FROM threadline.log l WHERE l.tree = s.tree AND l.log = s.log)) m
