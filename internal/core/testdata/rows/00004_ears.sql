INSERT INTO ear (place, controller, since, heard_at) VALUES ('', 'controller-1', 1760000001000, 1760000004000);
INSERT INTO alarm (place, raised_at, text) VALUES ('rack', 1760000004000, '3 of 4 nodes are silent');
UPDATE observed SET well_at = seen_at, well_since = seen_at;
