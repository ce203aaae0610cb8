/** Numbered, applied at open, never edited once released: a new shape is a new number. */
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
]
