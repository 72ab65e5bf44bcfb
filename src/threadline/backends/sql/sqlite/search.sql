-- The index of what was said, and all that reads and writes it. It follows from the log: it is made by whoever needs it
-- first, lags behind the log until somebody catches it up, and can be dropped at any time.
--
-- A document is an entry, or a title: that of the session whose own log it is, as if it were entry 0. Its number is that
-- of its stretch of 64 entries of a log, times 64, and its place there: so documents of one conversation stand
-- together, and the lists of numbers are short. The index keeps no text and no positions: `search` holds the terms of
-- each document (core/words.py), `search_doc` how many they are; phrases are looked for in the texts themselves.

-- make_search: the terms of all documents. Terms come ready made, so the tokenizer only splits at spaces
CREATE VIRTUAL TABLE search USING fts5 (words, content = '', columnsize = 0, detail = none,
                                          tokenize = "ascii tokenchars '_'")

-- make_search_secure: a term that is removed leaves no byte behind
INSERT INTO search (search, rank) VALUES ('secure-delete', 1)

-- make_search_doc: which documents are in it, and how long they are
CREATE TABLE search_doc (doc INTEGER PRIMARY KEY, terms INTEGER NOT NULL) STRICT

-- make_search_stretch: which entries the numbers stand for: `part` times 64 and up, of a log
CREATE TABLE search_stretch (
    stretch INTEGER PRIMARY KEY, log INTEGER NOT NULL, part INTEGER NOT NULL, UNIQUE (log, part)
) STRICT

-- make_search_title: the titles that are in it, as they were when they were indexed
CREATE TABLE search_title (session INTEGER PRIMARY KEY, log INTEGER NOT NULL, title BLOB NOT NULL) STRICT

-- make_search_retitled: sessions of which something else is said since
CREATE TABLE search_retitled (session INTEGER PRIMARY KEY) STRICT

-- make_search_state: by which rules it was made, up to which row of `entry` and of `session`, and its sums
CREATE TABLE search_state (
    version INTEGER NOT NULL, entry INTEGER NOT NULL, session INTEGER NOT NULL, docs INTEGER NOT NULL, terms INTEGER NOT NULL
) STRICT

-- make_search_trigger: a title that changes is indexed anew, later
CREATE TRIGGER search_on_about AFTER UPDATE OF about ON session WHEN new.about IS NOT old.about
BEGIN
    INSERT INTO search_retitled VALUES (new.session) ON CONFLICT DO NOTHING;
END

-- make_search_start: nothing is indexed yet
INSERT INTO search_state VALUES (?, 0, 0, 0, 0)

-- drop_search_trigger: all of it goes
DROP TRIGGER IF EXISTS search_on_about

-- drop_search: likewise
DROP TABLE IF EXISTS search

-- drop_search_doc: likewise
DROP TABLE IF EXISTS search_doc

-- drop_search_stretch: likewise
DROP TABLE IF EXISTS search_stretch

-- drop_search_title: likewise
DROP TABLE IF EXISTS search_title

-- drop_search_retitled: likewise
DROP TABLE IF EXISTS search_retitled

-- drop_search_state: likewise
DROP TABLE IF EXISTS search_state

-- there: whether there is an index
SELECT 1 FROM sqlite_schema WHERE name = 'search_state'

-- state: how far it is
SELECT version, entry, session, docs, terms FROM search_state

-- set_entry: it is farther
UPDATE search_state SET entry = ?, docs = docs + ?, terms = terms + ?

-- set_session: likewise
UPDATE search_state SET session = ?

-- clamp: rows at the end are gone, and their numbers will be given again
UPDATE search_state SET entry = min(entry, (SELECT coalesce(max(entry), 0) FROM entry))

-- last_rows: up to where there is something to index
SELECT (SELECT coalesce(max(entry), 0) FROM entry), (SELECT coalesce(max(session), 0) FROM session)

-- rows_after: entries to be indexed, in the order in which they were written
SELECT entry, log, seq, kind, at, tokens, voice, view, shown, total, open, asked, digest, chain, key, usage, calls, body
FROM   entry
WHERE  entry > ?
ORDER BY entry
LIMIT  ?

-- row: an entry, compared with the row itself, as everywhere
SELECT entry, log, seq, kind, at, tokens, voice, view, shown, total, open, asked, digest, chain, key, usage, calls, body
FROM   entry
WHERE  entry = (SELECT entry FROM entry WHERE log = ?1 AND seq = ?2)
AND    +log = ?1 AND +seq = ?2

-- rows_at: some entries, likewise
SELECT e.log, e.seq, e.kind, e.at, e.tokens, e.voice, e.view, e.shown, e.total, e.open, e.asked, e.digest, e.chain, e.key,
       e.usage, e.calls, e.body
FROM   json_each(?) d
CROSS JOIN entry i ON i.log = d.value ->> 0 AND i.seq = d.value ->> 1
CROSS JOIN entry e ON e.entry = i.entry AND e.log = i.log AND e.seq = i.seq

-- blob: a large string of an entry
SELECT b.content
FROM   blob_use u
JOIN   blob b ON b.tree = u.tree AND b.name = u.name
WHERE  u.log = ? AND u.seq = ? AND u.name = ?

-- insert_words: a document
INSERT INTO search (rowid, words) VALUES (?, ?)

-- delete_words: a document that goes; it must be told what it was, word by word
INSERT INTO search (search, rowid, words) VALUES ('delete', ?, ?)

-- insert_doc: and its length
INSERT INTO search_doc (doc, terms) VALUES (?, ?)

-- delete_doc: likewise
DELETE FROM search_doc WHERE doc = ?

-- stretch: the number of a stretch
SELECT stretch FROM search_stretch WHERE log = ? AND part = ?

-- insert_stretch: a new one
INSERT INTO search_stretch (log, part) VALUES (?, ?)

-- delete_stretches: those of a log that hold no document any more
DELETE FROM search_stretch
WHERE  log = ?
AND    NOT EXISTS (SELECT 1 FROM search_doc WHERE doc BETWEEN stretch * 64 AND stretch * 64 + 63)

-- stretches: where some of them lie
SELECT stretch, log, part FROM search_stretch WHERE stretch IN (SELECT value FROM json_each(?))

-- docs_between: the documents of a part of a log
SELECT d.doc, s.part * 64 + d.doc % 64
FROM   search_stretch s
CROSS JOIN search_doc d ON d.doc BETWEEN s.stretch * 64 AND s.stretch * 64 + 63
WHERE  s.log = ?1 AND s.part BETWEEN ?2 / 64 AND ?3 / 64 AND s.part * 64 + d.doc % 64 BETWEEN ?2 AND ?3

-- stretches_between: the numbers of a part of a log
SELECT stretch, part FROM search_stretch WHERE log = ?1 AND part BETWEEN ?2 / 64 AND ?3 / 64

-- lengths: of some documents
SELECT doc, terms FROM search_doc WHERE doc IN (SELECT value FROM json_each(?))

-- extent: the first and the last document
SELECT (SELECT min(doc) FROM search_doc), (SELECT max(doc) FROM search_doc)

-- look: nothing, but looked for
SELECT rowid FROM search WHERE search MATCH '_' LIMIT 1

-- documents: those that match, the last first
SELECT rowid FROM search WHERE search MATCH ? ORDER BY rowid DESC LIMIT ?

-- documents_between: likewise, of a stretch
SELECT rowid FROM search WHERE search MATCH ? AND rowid BETWEEN ? AND ? ORDER BY rowid DESC LIMIT ?

-- merge: some of the work that makes looking up quick
INSERT INTO search (search, rank) VALUES ('merge', ?)

-- retitled: sessions whose title may have changed
SELECT session FROM search_retitled LIMIT ?

-- done_retitled: it is indexed
DELETE FROM search_retitled WHERE session = ?

-- sessions_after: sessions that were made since
SELECT session FROM session WHERE session > ? ORDER BY session LIMIT ?

-- said: what is said of a session, and its own log
SELECT s.about, h.log FROM session s JOIN head h ON h.session = s.session WHERE s.session = ?

-- title: as it was indexed
SELECT log, title FROM search_title WHERE session = ?

-- titles: all of them
SELECT log, title FROM search_title

-- verify_docs: all documents
SELECT s.log, s.part * 64 + d.doc % 64, d.terms
FROM   search_doc d
LEFT JOIN search_stretch s ON s.stretch = d.doc / 64

-- title_of_log: likewise
SELECT t.title, t.session FROM head h JOIN search_title t ON t.session = h.session WHERE h.log = ?

-- set_title: likewise
INSERT INTO search_title (session, log, title) VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET log = ?2, title = ?3

-- delete_title: likewise
DELETE FROM search_title WHERE session = ?

-- readers: the sessions that read some logs, and may be found; whose own log it is, first
SELECT s.log, s.session, s.first, s.last, h.log = s.log
FROM   json_each(:logs) l
CROSS JOIN share s ON s.log = l.value
CROSS JOIN head h  ON h.session = s.session
WHERE  h.namespace = :namespace AND (:trashed OR h.status < 2) AND (:session IS NULL OR s.session = :session)
AND    (:cwd IS NULL OR EXISTS (SELECT 1 FROM session x WHERE x.session = s.session AND x.cwd = :cwd))
AND    (:agent IS NULL OR EXISTS (SELECT 1 FROM session x WHERE x.session = s.session AND x.agent = :agent))
ORDER BY s.log, 5 DESC, s.session

-- few_by_agent: whether so few sessions are meant that each can be looked at by itself
SELECT session FROM session WHERE namespace = :namespace AND agent = :agent LIMIT :few

-- few_by_cwd: likewise
SELECT session FROM session WHERE namespace = :namespace AND cwd = :cwd LIMIT :few

-- pieces: where the entries of a session lie
SELECT log, first, last FROM share WHERE session = ? ORDER BY first

-- sessions: some sessions, as others refer to them
SELECT session, tree, id, key FROM session WHERE session IN (SELECT value FROM json_each(?))

-- lineages: where their entries lie
SELECT session, log, first, last FROM share WHERE session IN (SELECT value FROM json_each(?)) ORDER BY session, first

-- records: and all that is said of them
SELECT s.session, s.id, s.key, s.about, h.status, s.created_at, h.updated_at, h.queued, h.lease,
       h.head, h.chain, h.view, h.shown, h.total, h.open, h.asked, h.pending, h.messages, h.tokens
FROM   json_each(?) few
CROSS JOIN session s ON s.session = few.value
CROSS JOIN head h    ON h.session = s.session
