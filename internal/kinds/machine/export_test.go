package machine

// UnderQuery is the query of Under: a test holds how the database goes about it.
const UnderQuery = underQuery
