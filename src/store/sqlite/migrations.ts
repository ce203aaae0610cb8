/**
 * Schema migrations, applied in order when the database is opened. A released migration is never changed: every schema change is a new
 * one.
 */
export const migrations: readonly string[] = [
  `
  CREATE TABLE incarnation (
    id            TEXT PRIMARY KEY,
    installation  TEXT NOT NULL,
    boot_id       TEXT NOT NULL,
    pid_namespace TEXT NOT NULL,
    pid           INTEGER NOT NULL,
    start_time    TEXT NOT NULL,
    role          TEXT NOT NULL CHECK (role IN ('server', 'command')),
    address       TEXT,
    claimed_by    TEXT,
    registered_at TEXT NOT NULL
  ) STRICT;
  -- At most one server on a home.
  CREATE UNIQUE INDEX incarnation_server ON incarnation (role) WHERE role = 'server';

  CREATE TABLE scope (
    id          TEXT PRIMARY KEY,
    kind        TEXT NOT NULL,
    parent_id   TEXT REFERENCES scope (id) ON DELETE CASCADE,
    incarnation TEXT NOT NULL,
    state       TEXT NOT NULL CHECK (state IN ('open', 'closing', 'closed')),
    wish        TEXT
  ) STRICT;
  CREATE INDEX scope_parent ON scope (parent_id);
  CREATE INDEX scope_incarnation ON scope (incarnation);

  CREATE TABLE resource (
    id          TEXT PRIMARY KEY,
    scope_id    TEXT NOT NULL REFERENCES scope (id) ON DELETE CASCADE,
    incarnation TEXT NOT NULL,
    kind        TEXT NOT NULL,
    name        TEXT NOT NULL,
    spec        TEXT NOT NULL,
    detail      TEXT,
    depends_on  TEXT NOT NULL,
    on_loss     TEXT NOT NULL CHECK (on_loss IN ('end', 'keep')),
    state       TEXT NOT NULL CHECK (state IN ('intended', 'held', 'closing', 'released', 'stuck')),
    attempts    INTEGER NOT NULL DEFAULT 0,
    intended_at TEXT NOT NULL,
    held_at     TEXT,
    released_at TEXT,
    proof       TEXT,
    error       TEXT
  ) STRICT;
  CREATE INDEX resource_scope ON resource (scope_id);

  CREATE TABLE report (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    id       TEXT NOT NULL UNIQUE,
    body     TEXT NOT NULL
  ) STRICT;

  CREATE TABLE sighting (
    kind          TEXT NOT NULL,
    name          TEXT NOT NULL,
    boot_id       TEXT NOT NULL,
    first_seen_ms REAL NOT NULL,
    count         INTEGER NOT NULL,
    PRIMARY KEY (kind, name)
  ) STRICT;
  `,
  `
  CREATE TABLE agent (
    -- Gives the order of creation, and a short key for the messages.
    number          INTEGER PRIMARY KEY AUTOINCREMENT,
    id              TEXT NOT NULL UNIQUE,
    name            TEXT,
    type            TEXT NOT NULL,
    placement       TEXT NOT NULL,
    namespace       TEXT NOT NULL,
    request_id      TEXT,
    task_id         TEXT,
    parent_agent_id TEXT,
    status          TEXT NOT NULL CHECK (status IN ('initializing', 'running', 'stopping', 'completed', 'failed', 'terminated', 'stuck')),
    prompt          TEXT NOT NULL,
    configuration   TEXT NOT NULL,
    message_count   INTEGER NOT NULL DEFAULT 0,
    incarnation     TEXT NOT NULL,
    created_at      TEXT NOT NULL,
    started_at      TEXT,
    completed_at    TEXT,
    exit_code       INTEGER,
    signal          TEXT,
    error           TEXT,
    result          TEXT,
    report          TEXT
  ) STRICT;
  CREATE INDEX agent_namespace ON agent (namespace, number);
  CREATE INDEX agent_status ON agent (status, number);

  CREATE TABLE message (
    agent      INTEGER NOT NULL REFERENCES agent (number) ON DELETE CASCADE,
    sequence   INTEGER NOT NULL,
    id         TEXT NOT NULL,
    type       TEXT NOT NULL,
    role       TEXT,
    content    TEXT NOT NULL,
    raw        TEXT,
    metadata   TEXT,
    created_at TEXT NOT NULL,
    PRIMARY KEY (agent, sequence)
  ) STRICT, WITHOUT ROWID;

  -- The reading position of an output stream. It moves in the transaction that saves the messages.
  CREATE TABLE position (
    agent  INTEGER NOT NULL REFERENCES agent (number) ON DELETE CASCADE,
    stream TEXT NOT NULL,
    offset INTEGER NOT NULL,
    PRIMARY KEY (agent, stream)
  ) STRICT, WITHOUT ROWID;

  -- Requests and tasks by the names that clients give them. The state is that of the scope.
  CREATE TABLE owner (
    kind       TEXT NOT NULL CHECK (kind IN ('request', 'task')),
    namespace  TEXT NOT NULL,
    id         TEXT NOT NULL,
    scope_id   TEXT NOT NULL UNIQUE,
    created_at TEXT NOT NULL,
    PRIMARY KEY (kind, namespace, id)
  ) STRICT, WITHOUT ROWID;
  `,
  `
  -- Tasks. Their ids are unique. The state is that of their owner's scope.
  CREATE TABLE task (
    number       INTEGER PRIMARY KEY AUTOINCREMENT,
    id           TEXT NOT NULL UNIQUE,
    namespace    TEXT NOT NULL,
    description  TEXT NOT NULL,
    priority     TEXT NOT NULL,
    base         TEXT NOT NULL,
    workspace    TEXT NOT NULL,
    cwd          TEXT NOT NULL,
    deployed     INTEGER NOT NULL DEFAULT 0,
    created_at   TEXT NOT NULL,
    completed_at TEXT
  ) STRICT;
  CREATE INDEX task_base ON task (base);

  -- The last report of a task agent, and the hash of the token that identifies it.
  ALTER TABLE agent ADD COLUMN progress TEXT;
  ALTER TABLE agent ADD COLUMN findings INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE agent ADD COLUMN token_hash TEXT;
  CREATE INDEX agent_task ON agent (task_id, number) WHERE task_id IS NOT NULL;
  CREATE UNIQUE INDEX agent_token ON agent (token_hash) WHERE token_hash IS NOT NULL;

  -- Folders that tasks share and that one of them created. The mark allows the last task to remove the folder.
  CREATE TABLE folder (
    base TEXT PRIMARY KEY,
    mark TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;
  `,
  `
  -- The timeout of a request, kept when its agents outlive a server.
  ALTER TABLE owner ADD COLUMN closes_at TEXT;
  -- Since when an obligation of a resource cannot be met. Some obligations expire.
  ALTER TABLE resource ADD COLUMN owed_since TEXT;
  `,
]
