-- The request to the API that an event comes from; '' for what the controller did by itself.
ALTER TABLE event ADD COLUMN request TEXT NOT NULL DEFAULT '';
