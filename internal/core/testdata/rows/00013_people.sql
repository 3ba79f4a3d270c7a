INSERT INTO person (name, uid, full_name, operator, subject, created_at) VALUES
  ('admin', 20000, 'The Operator', 1, NULL, 1760000000000),
  ('ada', 20001, 'Ada', 0, 'https://id.example.org ada', 1760000000000),
  ('left', 20002, '', 0, NULL, 1760000000000);
UPDATE person SET disabled = 1 WHERE name = 'left';
INSERT INTO member (project, person, role, created_at) VALUES ('lab', 'admin', 'owner', 1760000000000), ('lab', 'ada', 'member', 1760000000000);
INSERT INTO token (id, hash, person, name, kind, scope, project, created_at, expires_at) VALUES
  ('t1', '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08', 'admin', 'local', 'local', 'all', NULL, 1760000000000, NULL),
  ('t2', '60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752', 'ada', 'laptop', 'api', 'read', 'lab', 1760000000000, 9760000000000);
INSERT INTO user_key (fingerprint, person, line, created_at) VALUES ('SHA256:dddd', 'ada', 'ssh-ed25519 AAAA ada', 1760000000000);
UPDATE access_head SET revision = 9;
INSERT INTO audit (id, at, person, token, door, action, project, object, outcome, remote, request) VALUES
  ('a1', 1760000001000, 'admin', 't1', 'api', 'create-cluster', 'lab', 'cfd', '202', '192.0.2.1', 'req-1');
