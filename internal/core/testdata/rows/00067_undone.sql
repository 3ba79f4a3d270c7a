UPDATE observed SET undone = '[{"user":"ada","text":"home and keys: no space left on device"}]' WHERE node_id = 'k1';
