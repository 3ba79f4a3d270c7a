package fabric

// HomesQuery is the query of Homes; OfFabric the condition of those that ask for what one fabric has.
const HomesQuery = homesQuery

var OfFabric = ofFabric
