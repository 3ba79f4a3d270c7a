-- Whoever may see one project asks for its events alone.

CREATE INDEX event_project ON event (project, seq);
