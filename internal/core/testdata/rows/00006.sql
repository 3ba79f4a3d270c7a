INSERT INTO external_cluster (id, login, host_keys, probe, created_at, phase, phase_at, reason, reached) VALUES
  ('tier1', 'tier1.example.org:22', 'ssh-ed25519 AAAA', 'muster', 1000, 'degraded', 2000, 'connection refused', 1);
