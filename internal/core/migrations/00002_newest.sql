-- The newest entries and sessions of a person, or of a project, are found without a look at everybody's.
CREATE INDEX audit_person ON audit (person, at, id);
CREATE INDEX audit_project ON audit (project, at, id);
CREATE INDEX session_person ON session (person, began_at, id);
CREATE INDEX session_project ON session (project, began_at, id);
