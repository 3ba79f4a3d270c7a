INSERT INTO user_key (fingerprint, person, line, created_at, proven) VALUES ('SHA256:eeee', 'ada', 'ssh-ed25519 AAAB ada', 1760000030000, 1);
