CREATE TABLE machine (
  id          TEXT PRIMARY KEY,
  name        TEXT NOT NULL UNIQUE,
  substrate   TEXT NOT NULL,
  network     TEXT NOT NULL DEFAULT '',   -- that it boots from; '' for parts of a controller's host
  macs        TEXT NOT NULL DEFAULT '[]', -- JSON, in order; the table nic holds them unique
  ports       TEXT NOT NULL DEFAULT '[]', -- JSON: the switch's ports that it is on, one for each MAC; [] where nobody said
  power       TEXT NOT NULL DEFAULT '{}', -- JSON; credentials only by reference
  facts       TEXT NOT NULL,              -- JSON: kilobytes
  summary     TEXT NOT NULL DEFAULT '{}', -- JSON: of its facts, what lists show and classes select by
  desired     TEXT NOT NULL CHECK (desired IN ('service', 'maintenance', 'removed')),
  quarantine_reason TEXT NOT NULL DEFAULT '', -- why it was set apart, until an inspection passed
  off_since   BIGINT NOT NULL DEFAULT 0,  -- since when it is told to be off and was not yet seen so; 0: nobody waits for that
  dirty       BIGINT NOT NULL DEFAULT 0,  -- 1: its disks may hold a tenant's data
  release     TEXT NOT NULL DEFAULT '',   -- JSON: the receipt of the last release

  inspections_asked    BIGINT NOT NULL DEFAULT 0,
  inspections_answered BIGINT NOT NULL DEFAULT 0,
  boot        BIGINT NOT NULL DEFAULT 0,  -- number of the last boot for an inspection
  boot_at     BIGINT NOT NULL DEFAULT 0,  -- when that began
  tries       BIGINT NOT NULL DEFAULT 0,  -- boots of this inspection
  failures    BIGINT NOT NULL DEFAULT 0,  -- inspections failed in a row

  hosts       BIGINT NOT NULL DEFAULT 0 CHECK (hosts IN (0, 1)), -- 1: it is a hypervisor, and holds guests instead of a node
  hosting     BIGINT NOT NULL DEFAULT 0,  -- revision of what it is to hold, as its agent is told
  drains      BIGINT NOT NULL DEFAULT 0 CHECK (drains IN (0, 1)), -- of a hypervisor: 1, its guests are to go elsewhere
  -- The machine's own ID while it may carry a node itself, which then refers to it: no machine has a node and guests.
  whole       TEXT UNIQUE CHECK (whole IS NULL OR whole = id AND hosts = 0),

  -- Of a guest: its host, and what it has of that. While it moves, also the host that it goes to, and what it is to have there.
  host_id     TEXT REFERENCES machine (id) CHECK (host_id IS NULL OR host_id <> id AND hosts = 0),
  allocation  TEXT NOT NULL DEFAULT '',   -- JSON
  to_host_id  TEXT REFERENCES machine (id) CHECK (to_host_id IS NULL OR host_id IS NOT NULL AND to_host_id <> host_id),
  to_allocation TEXT NOT NULL DEFAULT '', -- JSON
  moves_at    BIGINT NOT NULL DEFAULT 0,  -- when its move began
  {{life}},
  UNIQUE (id, hosts),
  CHECK (phase IN ('enrolled', 'inspecting', 'available', 'reserved', 'in-use', 'releasing', 'maintenance', 'quarantined', 'removed'))
);
CREATE INDEX machine_wake ON machine (wake_at);
CREATE INDEX machine_host ON machine (host_id);
CREATE INDEX machine_to_host ON machine (to_host_id);

-- What is allocated of a host, once each. A core that guests share has several places: "12/0", "12/1". What a guest that moves
-- is to have of its new host stands beside what it has of the old one.
CREATE TABLE allocation (
  host_id  TEXT   NOT NULL,
  hosts    BIGINT NOT NULL DEFAULT 1 CHECK (hosts = 1),
  kind     TEXT   NOT NULL CHECK (kind IN ('core', 'device')),
  name     TEXT   NOT NULL,
  guest_id TEXT   NOT NULL REFERENCES machine (id),
  PRIMARY KEY (host_id, kind, name),
  FOREIGN KEY (host_id, hosts) REFERENCES machine (id, hosts)
);
CREATE INDEX allocation_guest ON allocation (guest_id);

CREATE TABLE network (
  name        TEXT PRIMARY KEY,
  description TEXT NOT NULL -- JSON
);

-- One machine a MAC, ever.
CREATE TABLE nic (
  mac        TEXT PRIMARY KEY,
  machine_id TEXT NOT NULL REFERENCES machine (id),
  position   BIGINT NOT NULL
);
CREATE INDEX nic_machine ON nic (machine_id);

-- The machine of an InfiniBand adapter, as inspections and imports have found: a fabric asks for those of its ports, and reads no
-- machines for it.
CREATE TABLE adapter (
  guid       TEXT PRIMARY KEY, -- of its node, spelled as fabric_port.adapter is
  machine_id TEXT NOT NULL REFERENCES machine (id)
);
CREATE INDEX adapter_machine ON adapter (machine_id);

-- Addresses given out. One of an enrolled machine is its own for as long as it is enrolled (expires 0).
CREATE TABLE lease (
  network TEXT   NOT NULL,
  address BIGINT NOT NULL, -- IPv4 as a number
  mac     TEXT   NOT NULL,
  expires BIGINT NOT NULL,
  PRIMARY KEY (network, address),
  UNIQUE (network, mac)
);
CREATE INDEX lease_expiry ON lease (network, expires);

-- What a machine boots now, and how far it is. A machine without a row is to be off.
CREATE TABLE boot (
  machine_id TEXT PRIMARY KEY REFERENCES machine (id),
  subject    TEXT   NOT NULL UNIQUE,     -- the node; or the machine itself, for an inspection
  number     BIGINT NOT NULL,            -- of the subject's boots
  image      TEXT   NOT NULL,            -- digest
  file       TEXT   NOT NULL,            -- the agent's boot file without its token, JSON
  disk       BIGINT NOT NULL DEFAULT 0,  -- 1: the root is on the machine's disk
  erase      BIGINT NOT NULL DEFAULT 0,  -- 1: an inspection that erases first
  powered_at BIGINT NOT NULL DEFAULT 0,  -- when it was switched on
  scripts    BIGINT NOT NULL DEFAULT 0,  -- times that its boot script was handed out
  joined_key TEXT   NOT NULL DEFAULT '', -- fingerprint of the key that used an inspection's token
  ending     BIGINT NOT NULL DEFAULT 0,  -- 1: its agent is told to end
  step       TEXT   NOT NULL DEFAULT '', -- the last that it reached
  step_at    BIGINT NOT NULL DEFAULT 0,  -- when it came to its step
  detail     TEXT   NOT NULL DEFAULT '',
  heard_at   BIGINT NOT NULL,            -- when it last gave a sign of life, or was asked for one
  findings   TEXT   NOT NULL DEFAULT ''  -- of an inspection, JSON
);

-- Machines that asked to boot and that nobody has enrolled. Bounded; nothing in it is believed.
CREATE TABLE unknown_machine (
  mac        TEXT PRIMARY KEY,
  network    TEXT   NOT NULL,
  macs       TEXT   NOT NULL DEFAULT '[]',
  facts      TEXT   NOT NULL DEFAULT '{}',
  first_seen BIGINT NOT NULL,
  last_seen  BIGINT NOT NULL
);

-- What nodes measured before they were handed over: one row a test that was judged. Nothing in it changes later.
CREATE TABLE test_result (
  at         BIGINT NOT NULL,
  machine_id TEXT   NOT NULL REFERENCES machine (id),
  machine    TEXT   NOT NULL,       -- its name
  class      TEXT   NOT NULL,
  comparison_group TEXT NOT NULL,   -- of its class, those with the same text are compared
  cluster_id TEXT   NOT NULL,
  cluster    TEXT   NOT NULL,
  node_id    TEXT   NOT NULL,
  node       TEXT   NOT NULL,
  boot       BIGINT NOT NULL,
  number     BIGINT NOT NULL,       -- of the boot's tests
  image      TEXT   NOT NULL,       -- digest
  took       BIGINT NOT NULL,       -- µs
  results    TEXT   NOT NULL,       -- JSON
  verdict    TEXT   NOT NULL CHECK (verdict IN ('passed', 'again', 'slow')),
  text       TEXT   NOT NULL,
  PRIMARY KEY (node_id, boot, number)
);
CREATE INDEX test_result_machine ON test_result (machine_id, at);
CREATE INDEX test_result_group ON test_result (class, comparison_group, at);
