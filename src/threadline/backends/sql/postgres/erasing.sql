-- What erase and redact run on PostgreSQL, by name. Every one names its tree. Values are always bound.

-- holders: the sessions that hold parts of one: its forks, its children, and those that read its own log
SELECT session FROM threadline.session WHERE tree = %(tree)s AND origin = %(session)s
UNION
SELECT session FROM threadline.session WHERE tree = %(tree)s AND parent = %(session)s
UNION
SELECT session FROM threadline.share WHERE tree = %(tree)s AND log = %(log)s AND session <> %(session)s
ORDER BY 1

-- readers: the sessions that read an entry of a log
SELECT session FROM threadline.share WHERE tree = %s AND log = %s AND %s BETWEEN first AND last ORDER BY 1

-- count_own: how many entries some logs hold
SELECT count(*) FROM threadline.entry WHERE tree = %s AND log = ANY (%s::bigint[])

-- bury: a tombstone takes the place of an entry's content
UPDATE threadline.entry SET key = %s, usage = %s, body = %s WHERE tree = %s AND log = %s AND seq = %s

-- count_tombstones: more entries of a log are redacted
UPDATE threadline.log SET redacted = redacted + %s WHERE tree = %s AND log = %s

-- tombstones: the redacted entries of a log; only one that has some is read
SELECT e.seq
FROM   threadline.entry e
WHERE  e.tree = %(tree)s AND e.log = %(log)s AND substr(e.body, 1, 1) = '\x02'
AND    EXISTS (SELECT 1 FROM threadline.log l WHERE l.tree = %(tree)s AND l.log = %(log)s AND l.redacted > 0)
ORDER BY e.seq

-- key_row: what an idempotency key of a log stands for
SELECT seq, count, identity FROM threadline.key WHERE tree = %s AND log = %s AND key = %s

-- delete_key: one that nobody may read any more
DELETE FROM threadline.key WHERE tree = %s AND log = %s AND key = %s

-- delete_entry_blob_uses: a redacted entry has no large parts
DELETE FROM threadline.blob_use WHERE tree = %s AND log = %s AND seq = %s

-- keeping: how the server gets rid of what was deleted
SELECT current_setting('autovacuum'), current_setting('archive_mode'), current_setting('checkpoint_timeout')

-- verify_redacted: logs that hold more or less tombstones than they say
SELECT l.tree, l.log, l.redacted, count(e.seq)
FROM   threadline.log l
LEFT JOIN threadline.entry e ON e.tree = l.tree AND e.log = l.log AND substr(e.body, 1, 1) = '\x02'
GROUP BY l.tree, l.log, l.redacted
HAVING l.redacted <> count(e.seq)

-- memories_of: every memory of a namespace: any of them may name a session of it
SELECT tree, project FROM threadline.memory WHERE realm = %s ORDER BY tree

-- recount_tombstones: of logs that were cut
UPDATE threadline.log x
SET    redacted = (SELECT count(*) FROM threadline.entry e
                   WHERE  e.tree = %(tree)s AND e.log = x.log AND substr(e.body, 1, 1) = '\x02')
WHERE  x.tree = %(tree)s AND x.log = ANY (%(logs)s::bigint[]) AND x.redacted > 0
