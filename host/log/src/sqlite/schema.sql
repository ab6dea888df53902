-- Schema 7 of a Windlass log. Times are log time in milliseconds unless a name says otherwise.
-- message.id = topic << 43 | sequence, so a topic is one range of the table and needs no index.

create table state(
  id integer primary key check (id = 1),
  next_sequence integer not null,     -- of the whole log
  last_ms integer not null,           -- greatest log time used in an id
  next_slot integer not null,         -- for lease.id
  offset_ms integer not null,         -- log time = boot clock + this, while boot_id is the machine's
  boot_id text not null,
  topics_declared integer not null,   -- 1: only declared topics take messages
  retain_ms integer not null,
  retain_messages integer not null,
  deployed integer not null default 0, -- rises with every change of what is deployed
  taken integer not null default 0     -- up to where a server has followed that
);

create table topic(
  id integer primary key,
  name text not null unique,
  published integer not null,         -- ever, and their size
  published_bytes integer not null,
  removed integer not null,           -- of those, no longer stored
  removed_bytes integer not null,
  swept integer not null,             -- the sweep has looked at all up to here
  stragglers integer not null,        -- stored at or before swept: some group waits for or buried them
  unclaimed text not null,            -- json: ranges stored while no group was there to need them
  floors text not null,               -- json: when what was no longer needed, for retain
  gone integer not null,              -- the highest sequence that was removed
  max_messages integer not null default 1000000,
  max_bytes integer not null default 2147483648,
  dedup_ms integer not null default 300000,
  retain_ms integer,                  -- none: as state has it
  retain_messages integer,
  max_age_ms integer                  -- none: nothing grows too old
);

create table message(
  id integer primary key,
  size integer not null,              -- as quotas count it
  record blob not null                -- version, time, what its topic had before it, head, data
);

create table grp(
  id integer primary key autoincrement, -- in tokens, so never used twice
  topic integer not null,
  name text not null,
  cursor integer not null,            -- all up to here were taken
  passed integer not null,            -- how many of topic.published those are, and their size
  passed_bytes integer not null,
  version integer not null,           -- rises with every change of leases or waiting rows
  waiting integer not null,           -- how many rows of waiting it has, and their size
  waiting_bytes integer not null,
  dead integer not null,              -- and of dead
  parked integer not null,            -- of those in waiting, how many are parked
  skips integer not null,             -- and of skip
  copies_missed integer not null,     -- dead letters whose copy was not taken
  policy text not null,               -- json
  unique(topic, name)
);

-- One row a claim: what is leased is compact, and an ack rewrites only the claim it belongs to.
create table lease(
  id integer primary key,
  grp integer not null,
  until integer not null,             -- the first end in it
  lo integer not null,                -- sequences it spans
  hi integer not null,
  n integer not null,
  bytes integer not null,
  batch blob not null
);
create index lease_grp on lease(grp);

-- Retries, delays, releases, redrives, and messages parked behind their key.
create table waiting(
  grp integer not null,
  seq integer not null,
  state integer not null,             -- 0 retry or release, 1 delayed, 2 parked
  due integer not null,
  attempts integer not null,
  failures integer not null,          -- entries in history
  first_at integer,                   -- the first and the last delivery
  last_at integer,
  size integer not null,
  key_hash integer,
  primary key(grp, seq)
) without rowid;
create index waiting_due on waiting(grp, due, seq) where state < 2;
create index waiting_key on waiting(grp, key_hash, seq) where key_hash is not null;

create table dead(
  grp integer not null,
  seq integer not null,
  at integer not null,
  reason text not null,
  attempts integer not null,
  failures integer not null,
  size integer not null,
  key_hash integer,
  primary key(grp, seq)
) without rowid;

-- Messages given a delay, for counting those that nobody has come to yet.
create table delayed(
  topic integer not null,
  due integer not null,
  seq integer not null,
  primary key(topic, due, seq)
) without rowid;

-- What was decided on messages before the group came to them.
create table skip(
  grp integer not null,
  seq integer not null,
  size integer not null,
  hurry integer not null,             -- 0: cancelled, 1: not to wait for its time
  primary key(grp, seq)
) without rowid;

-- Groups that were deleted and whose rows are still to be cleared away; a purge leaves one too.
create table gone_grp(
  id integer primary key,             -- as it was in grp; below zero: a purge's
  topic integer not null,
  cursor integer not null,            -- it had still to read what lies behind this,
  swept integer not null              -- of which the sweep had passed by what lies up to here
);

-- Topics that were deleted and whose messages are still to be cleared away.
create table gone_topic(
  id integer primary key              -- as it was in topic, and not used again before
);

-- Names of deleted topics that no topic has now.
create table former(
  name text primary key,
  gone integer not null               -- the highest sequence they had
) without rowid;

create table history(
  grp integer not null,
  seq integer not null,
  n integer not null,                 -- from 1
  record text not null,               -- json
  primary key(grp, seq, n)
) without rowid;

create table dedup(
  topic integer not null,
  dedup_id text not null,
  seq integer not null,
  millis integer not null,
  expires integer not null,
  primary key(topic, dedup_id)
) without rowid;
create index dedup_expires on dedup(expires);

-- What grew too old before a group came to it; one a group, until it is acknowledged.
create table gap(
  grp integer primary key,
  lo integer not null,
  hi integer not null,
  messages integer not null,
  at integer not null
);

-- Code and configuration of consumers, never changed but for `failed`.
create table revision(
  consumer text not null,
  number integer not null,            -- from 1, never used twice for a consumer
  digest text not null,               -- of the component, which lies in a file
  config text not null,
  at integer not null,                -- wall clock
  failed text,                        -- why it was given up
  primary key(consumer, number)
) without rowid;

-- Which of them are to run, and what the server said last.
create table deployment(
  consumer text primary key,
  revision integer not null,
  paused integer not null,
  told_revision integer,
  told_state text,
  told_text text,
  told_at integer,
  told_proven integer
) without rowid;
