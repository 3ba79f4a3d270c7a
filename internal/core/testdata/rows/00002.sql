-- It has no new columns.
SELECT 1;
