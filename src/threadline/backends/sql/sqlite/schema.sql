-- threadline on SQLite, schema version 1.
--
-- A session is an append-only log of entries. Nothing in `entry` is ever changed, but that an entry may lose its content
-- for good and keep its place (`redact`): compactions, rewinds and all the rest are entries themselves. What the model sees is a fold over the log, and the columns from `voice` on are that fold,
-- as it is right after the entry. So the view of any past moment is one lookup, and an append reads only `head`.
--
-- The life of a session: a row in `session` (what is said of it), one in `head` (what every append moves on), one in
-- `log`, and one in `share` that says "entries 1 and up lie in that log". Appends insert into `entry` and update
-- `head`; a call with an idempotency key also leaves a row in `key`. A fork is a new session whose `share` rows name
-- the ancestors' logs up to the fork point and its own log after it: nothing is copied, and however deep forks go,
-- one join finds an entry. A log outlives its session while somebody shares it. A sub-agent's session names its
-- `parent`; those of one family, forks included, have the same `tree`.
--
-- What requests to models took is in `request`, one row each, and added up in `spent`, so that no total reads requests.
--
-- Numbers of sessions and logs are never given twice (AUTOINCREMENT): a handle of a deleted session finds nothing, and
-- never somebody else's.
--
-- Text that callers choose (ids, keys, paths) is kept as UTF-8 bytes in BLOB columns, so that every string that
-- Python can hold is stored, compared and returned exactly. Times are microseconds since 1970, UTC.
-- `seal` is a short digest over the other columns of its row: a flipped bit does not pass for data.

CREATE TABLE log (
    log         INTEGER PRIMARY KEY AUTOINCREMENT,
    salt        BLOB NOT NULL,           -- where the chain of a log without ancestors begins
    redacted    INTEGER NOT NULL DEFAULT 0   -- how many of its entries are tombstones
) STRICT;

CREATE TABLE session (
    session     INTEGER PRIMARY KEY AUTOINCREMENT,
    tree        BLOB    NOT NULL,        -- the same for a root, its forks and its sub-agents, all the way down
    namespace   BLOB    NOT NULL,
    id          BLOB    NOT NULL,
    key         BLOB,
    created_at  INTEGER NOT NULL,
    cwd         BLOB,
    agent       BLOB,
    origin      INTEGER,                 -- the session that it was forked from
    parent      INTEGER,                 -- the session that spawned it
    call_id     BLOB,                    -- and the tool call that it answers there
    about       BLOB    NOT NULL,        -- title, tags, meta and so on, as JSON
    seal        BLOB    NOT NULL
) STRICT;

CREATE UNIQUE INDEX session_by_id      ON session (namespace, id);
CREATE UNIQUE INDEX session_by_key     ON session (namespace, key) WHERE key IS NOT NULL;
CREATE        INDEX session_by_created ON session (namespace, (parent IS NOT NULL), created_at);
CREATE        INDEX session_by_cwd     ON session (namespace, cwd)   WHERE cwd IS NOT NULL;
CREATE        INDEX session_by_agent   ON session (namespace, agent) WHERE agent IS NOT NULL;
CREATE        INDEX session_by_tree    ON session (tree);
CREATE        INDEX session_by_origin  ON session (origin)           WHERE origin IS NOT NULL;
CREATE        INDEX session_by_parent  ON session (parent)           WHERE parent IS NOT NULL;
CREATE UNIQUE INDEX session_by_call    ON session (parent, call_id)  WHERE call_id IS NOT NULL;

CREATE TABLE tag (
    namespace   BLOB    NOT NULL,
    tag         BLOB    NOT NULL,
    session     INTEGER NOT NULL,
    PRIMARY KEY (namespace, tag, session)
) STRICT, WITHOUT ROWID;

-- Narrow, because every append writes it; the one index is what listings walk.
CREATE TABLE head (
    session     INTEGER PRIMARY KEY,
    namespace   BLOB    NOT NULL,
    child       INTEGER NOT NULL,        -- 1 while it has a parent: listings of roots never pass by it
    log         INTEGER NOT NULL,        -- its own log, where appends go
    status      INTEGER NOT NULL,        -- 0 active, 1 archived, 2 trashed
    opened      INTEGER NOT NULL,        -- 0 until there are opening words, 1 by the assistant, 2 by the user
    updated_at  INTEGER NOT NULL,
    head        INTEGER NOT NULL,
    chain       BLOB    NOT NULL,
    view        INTEGER NOT NULL,
    shown       INTEGER NOT NULL,
    total       INTEGER NOT NULL,
    open        INTEGER NOT NULL,
    asked       INTEGER NOT NULL,
    pending     INTEGER NOT NULL,
    messages    INTEGER NOT NULL,
    tokens      INTEGER NOT NULL,
    queued      INTEGER NOT NULL DEFAULT 0,   -- messages in its inbox
    lease       BLOB,                    -- its seal, then token|until|holder; NULL if there never was one
    seal        BLOB    NOT NULL
) STRICT;

CREATE INDEX head_by_updated ON head (namespace, child, updated_at);

-- Entries `first` to `last` of the session lie in `log`. Its own log comes last and has no end.
CREATE TABLE share (
    session     INTEGER NOT NULL,
    first       INTEGER NOT NULL,
    last        INTEGER NOT NULL,
    log         INTEGER NOT NULL,
    seal        BLOB    NOT NULL,
    PRIMARY KEY (session, first)
) STRICT, WITHOUT ROWID;

CREATE INDEX share_by_log ON share (log);

-- A rowid table: WITHOUT ROWID would cost four times the body at 1 KB. The large columns come last, so that looking at
-- the small ones never follows a body through its pages.
CREATE TABLE entry (
    entry       INTEGER PRIMARY KEY,
    log         INTEGER NOT NULL,
    seq         INTEGER NOT NULL,
    kind        TEXT    NOT NULL,
    at          INTEGER NOT NULL,
    tokens      INTEGER NOT NULL,
    voice       INTEGER NOT NULL,        -- 0 silent, 1 other, 2 user, 3 assistant, 4 assistant calling
    view        INTEGER NOT NULL,        -- the last structural entry so far
    shown       INTEGER NOT NULL,        -- visible entries so far
    total       INTEGER NOT NULL,        -- and their tokens
    open        INTEGER NOT NULL,        -- the entry with the top of the stack of open calls
    asked       INTEGER NOT NULL,        -- the user's entry that nothing has answered
    digest      BLOB    NOT NULL,        -- of kind, at, tokens, key, usage and body
    chain       BLOB    NOT NULL,        -- H(chain of seq - 1, seq, digest)
    key         BLOB,
    usage       BLOB,                    -- JSON
    calls       BLOB,                    -- the node of the stack of open calls, where this entry changed it
    body        BLOB    NOT NULL,        -- JSON; or the byte 1, and it was cut; or 3, and it is compressed with deflate
    UNIQUE (log, seq)
) STRICT;

-- What the state and the goal were at any moment. Other entries are not in it, and cost nothing.
CREATE INDEX entry_by_kind ON entry (log, kind, seq) WHERE kind IN ('state', 'goal');

-- An idempotency key names a whole call: `count` entries from `seq` on, whose content had that identity.
CREATE TABLE key (
    log         INTEGER NOT NULL,
    key         BLOB    NOT NULL,
    seq         INTEGER NOT NULL,
    count       INTEGER NOT NULL,
    identity    BLOB    NOT NULL,
    seal        BLOB    NOT NULL,
    PRIMARY KEY (log, key)
) STRICT, WITHOUT ROWID;

-- Large strings of bodies, out of line: compressed, and named by their digest, so that a tree keeps each one once. A body
-- that was cut begins with the byte 1 and says where they belong.
CREATE TABLE blob (
    tree        BLOB    NOT NULL,
    name        BLOB    NOT NULL,        -- SHA-256 of the content
    size        INTEGER NOT NULL,        -- of the content, in bytes
    content     BLOB    NOT NULL,        -- compressed with zstd
    PRIMARY KEY (tree, name)
) STRICT;

-- Which entries a blob is a part of: when none is left, it goes.
CREATE TABLE blob_use (
    log         INTEGER NOT NULL,
    seq         INTEGER NOT NULL,
    tree        BLOB    NOT NULL,
    name        BLOB    NOT NULL,
    PRIMARY KEY (log, seq, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX blob_use_by_name ON blob_use (tree, name);

-- Messages that wait to enter the log of a session, in the order of their numbers. Taking one appends it and removes its
-- row in one transaction; from then on the row in `key` knows its key.
CREATE TABLE inbox (
    session     INTEGER NOT NULL,
    number      INTEGER NOT NULL,
    at          INTEGER NOT NULL,        -- when it came
    tokens      INTEGER NOT NULL,
    key         BLOB,
    body        BLOB    NOT NULL,        -- JSON
    seal        BLOB    NOT NULL,
    PRIMARY KEY (session, number)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX inbox_by_key ON inbox (session, key) WHERE key IS NOT NULL;

-- A message that is still streaming. Its text lies in `chunk` until one transaction makes it an entry and removes both.
CREATE TABLE draft (
    draft       INTEGER PRIMARY KEY,     -- drawn at random: a late writer never meets another draft of its number
    session     INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    role        BLOB    NOT NULL,
    key         BLOB,
    writer      BLOB,                    -- whose claim it is under; NULL when its writer let go of it
    seal        BLOB    NOT NULL
) STRICT;

CREATE INDEX draft_by_session ON draft (session, at);

CREATE TABLE chunk (
    draft       INTEGER NOT NULL,
    number      INTEGER NOT NULL,        -- 1, 2, 3 …
    text        BLOB    NOT NULL,
    seal        BLOB    NOT NULL,
    PRIMARY KEY (draft, number)
) STRICT, WITHOUT ROWID;

-- One request to a model. An id counts once in a tree: what a fork, a sub-agent or its parent reports again only lets
-- the row grow. `session` is who is charged, not sealed: a deleted child's rows go over to its parent in one statement.
CREATE TABLE request (
    request     INTEGER PRIMARY KEY,
    tree        BLOB    NOT NULL,
    namespace   BLOB    NOT NULL,
    session     INTEGER NOT NULL,
    id          BLOB,
    at          INTEGER NOT NULL,
    model       BLOB    NOT NULL,        -- empty where nobody said
    agent       BLOB    NOT NULL,        -- of the session when it was recorded; likewise
    input       INTEGER NOT NULL,
    output      INTEGER NOT NULL,
    cache_read  INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,
    reasoning   INTEGER NOT NULL,
    cost        INTEGER,                 -- in billionths; NULL while unknown
    given       INTEGER NOT NULL,        -- 1 if the caller said the cost, 0 if it comes from prices
    seal        BLOB    NOT NULL
) STRICT;

CREATE UNIQUE INDEX request_by_id      ON request (tree, id) WHERE id IS NOT NULL;
CREATE        INDEX request_by_session ON request (session, at);
CREATE        INDEX request_by_at      ON request (namespace, at);

-- The requests of a session, added up by UTC day, model, agent and whether they are priced.
CREATE TABLE spent (
    session     INTEGER NOT NULL,
    day         INTEGER NOT NULL,        -- since 1970
    model       BLOB    NOT NULL,
    agent       BLOB    NOT NULL,
    priced      INTEGER NOT NULL,
    namespace   BLOB    NOT NULL,
    requests    INTEGER NOT NULL,
    input       INTEGER NOT NULL,
    output      INTEGER NOT NULL,
    cache_read  INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,
    reasoning   INTEGER NOT NULL,
    cost        INTEGER NOT NULL,        -- of the priced ones
    PRIMARY KEY (session, day, model, agent, priced)
) STRICT, WITHOUT ROWID;

CREATE INDEX spent_by_day ON spent (namespace, day);

-- A memory: that of a project, or the global one, of a namespace. Its `tree` is a digest of both names. In it a *scope* is
-- the lasting memory (empty), or the working memory of a session, or of one agent in a session.
CREATE TABLE memory (
    tree        BLOB    NOT NULL PRIMARY KEY,
    namespace   BLOB    NOT NULL,
    project     BLOB    NOT NULL,        -- empty: the global one
    seal        BLOB    NOT NULL,        -- of the names; what follows is computed again by verify
    nodes       INTEGER NOT NULL DEFAULT 0,
    total       INTEGER NOT NULL DEFAULT 0   -- of the seals of all nodes: none is missing, none an older version
) STRICT, WITHOUT ROWID;

-- A claim, or what was made of claims. The address is the digest of type, content and inputs: the same node may stand in
-- several scopes, and what is said of it beside its content is only ever added to.
CREATE TABLE node (
    node        INTEGER PRIMARY KEY,
    tree        BLOB    NOT NULL,
    scope       BLOB    NOT NULL,
    addr        BLOB    NOT NULL,
    type        BLOB    NOT NULL,        -- leaf, compress, supersede, root, or what another tool calls it
    active      INTEGER NOT NULL,        -- 0 when superseded, compressed, stashed or retired
    created_at  INTEGER NOT NULL,
    touched_at  INTEGER NOT NULL,        -- when it was last claimed
    expires_at  INTEGER,
    promoted_at INTEGER,                 -- of a preliminary one: when it became lasting
    session     BLOB,                    -- who claimed it first
    agent       BLOB,
    domain      BLOB    NOT NULL,
    seal        BLOB    NOT NULL,
    inputs      BLOB    NOT NULL,        -- addresses, in order
    about       BLOB    NOT NULL,        -- confidence, priority, anchors, meta and so on, as JSON
    content     BLOB    NOT NULL,
    UNIQUE (tree, addr, scope)
) STRICT;

CREATE INDEX node_by_scope ON node (tree, scope, active, created_at);

-- Which nodes were made of a node.
CREATE TABLE node_input (
    tree        BLOB    NOT NULL,
    scope       BLOB    NOT NULL,
    addr        BLOB    NOT NULL,
    input       BLOB    NOT NULL,        -- the address of the one that it was made of
    PRIMARY KEY (tree, scope, addr, input)
) STRICT, WITHOUT ROWID;

CREATE INDEX node_input_by_input ON node_input (tree, input);

-- The words of lasting nodes up to number `upto`, each behind the beginning of its tree, so that memories do not meet.
-- Recall adds what is missing first: a claim does not wait for it.
CREATE VIRTUAL TABLE node_text USING fts5 (words, content='', contentless_delete=1, tokenize='ascii', detail='none');

CREATE TABLE node_indexed (
    upto        INTEGER NOT NULL,
    version     INTEGER NOT NULL         -- of the rules that make words of a text
) STRICT;

INSERT INTO node_indexed VALUES (0, 0);

-- A line of reasoning: nodes in an order, with a name and a status.
CREATE TABLE chain (
    tree        BLOB    NOT NULL,
    chain       BLOB    NOT NULL,        -- its id
    scope       BLOB    NOT NULL,
    name        BLOB    NOT NULL,
    status      BLOB    NOT NULL,        -- preliminary, active, stashed, archived, superseded
    created_at  INTEGER NOT NULL,
    extended_at INTEGER NOT NULL,
    session     BLOB,
    agent       BLOB,
    domain      BLOB    NOT NULL,
    members     BLOB    NOT NULL,        -- addresses, in order
    about       BLOB    NOT NULL,        -- meta, as JSON
    seal        BLOB    NOT NULL,
    PRIMARY KEY (tree, chain)
) STRICT, WITHOUT ROWID;

CREATE INDEX chain_by_name ON chain (tree, name);

-- Which chains hold a node.
CREATE TABLE chain_member (
    tree        BLOB    NOT NULL,
    chain       BLOB    NOT NULL,
    addr        BLOB    NOT NULL,
    PRIMARY KEY (tree, chain, addr)
) STRICT, WITHOUT ROWID;

CREATE INDEX chain_member_by_addr ON chain_member (tree, addr);

-- The working memory of a session, or of an agent in it: when it began, was used and ended.
CREATE TABLE working (
    tree        BLOB    NOT NULL,
    scope       BLOB    NOT NULL,
    namespace   BLOB    NOT NULL,
    session     BLOB    NOT NULL,
    agent       BLOB,
    started_at  INTEGER NOT NULL,
    touched_at  INTEGER NOT NULL,
    ended_at    INTEGER,                 -- archived since; NULL while it is at work
    turns       INTEGER NOT NULL,
    folded      INTEGER NOT NULL,        -- the turn after which it was last summed up
    seal        BLOB    NOT NULL,
    PRIMARY KEY (tree, scope)
) STRICT, WITHOUT ROWID;

CREATE INDEX working_by_session ON working (namespace, session);

-- What was done in a memory. A number is a time in microseconds, made unique.
CREATE TABLE memory_event (
    tree        BLOB    NOT NULL,
    number      INTEGER NOT NULL,
    what        BLOB    NOT NULL,
    session     BLOB,
    agent       BLOB,
    addrs       BLOB    NOT NULL,
    detail      BLOB    NOT NULL,        -- JSON
    seal        BLOB    NOT NULL,
    PRIMARY KEY (tree, number)
) STRICT, WITHOUT ROWID;

-- A row while bytes of what was erased or redacted may still lie in free space of the file, or in its WAL.
CREATE TABLE owed (
    since       INTEGER NOT NULL
) STRICT;
