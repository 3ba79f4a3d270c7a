INSERT INTO centre (name, login, host_keys, probe, created_at, looked_at, seen_at, system, queues) VALUES
  ('tier0', 'login.example.org:22', 'ssh-ed25519 AAAA tier0', 'muster', 1760000000000, 1760000001000, 1760000001000, 'Slurm 23.11', '[]');
INSERT INTO centre_project (centre, project, rule, account) VALUES ('tier0', 'lab', 'shared', 'lab0');
INSERT INTO centre_account (centre, person, account) VALUES ('tier0', 'ada', 'ada0');
