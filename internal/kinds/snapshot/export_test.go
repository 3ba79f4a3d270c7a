package snapshot

// NamedQuery is the query of AllNamed: a test holds how the database goes about it.
const NamedQuery = namedQuery
