INSERT INTO member (project, person, role, invited_by, created_at) VALUES ('lab', 'left', 'member', 'admin', 1760000030000);
