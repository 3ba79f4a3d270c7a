INSERT INTO idempotency (identity, key, request, status, answer, created_at, project) VALUES ('ada', 'key-2', 'ef01', 202, '{}', 1760000009000, 'lab');
