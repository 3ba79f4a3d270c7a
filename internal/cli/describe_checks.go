package cli

import (
	"strconv"

	apiv1 "muster/api/v1"
	"muster/internal/kit/words"
)

// siteCheck is one of the site's own checks, over all nodes of a cluster that make it.
type siteCheck struct {
	apiv1.Check
	nodes           int
	lowest, highest apiv1.Check // as found
	at, atHighest   string      // on which nodes
	fails           []string    // nodes
}

// printSiteChecks lists the site's own checks.
func (a *app) printSiteChecks(nodes []apiv1.Node) {
	var checks []*siteCheck
	known := map[apiv1.Check]*siteCheck{}
	for _, n := range nodes {
		for _, c := range n.Checks {
			if c.Limit == "" { // it is not of the site
				continue
			}
			same := apiv1.Check{Name: c.Name, Limit: c.Limit}
			all := known[same]
			if all == nil {
				all = &siteCheck{Check: same}
				known[same], checks = all, append(checks, all)
			}
			all.add(n.Name, c)
		}
	}
	t := newTable("CHECK", "LIMIT", "NODES", "LOWEST", "HIGHEST", "FAILS ON").whole()
	for _, c := range checks {
		t.row(c.Name, c.Limit, strconv.Itoa(c.nodes), found(c.lowest, c.at), found(c.highest, c.atHighest), words.Few(c.fails))
	}
	t.printBelow(a.out)
}

func (s *siteCheck) add(node string, c apiv1.Check) {
	s.nodes++
	if !c.OK {
		s.fails = append(s.fails, node)
	}
	if c.Found && (!s.lowest.Found || c.Value < s.lowest.Value) {
		s.lowest, s.at = c, node
	}
	if c.Found && (!s.highest.Found || c.Value > s.highest.Value) {
		s.highest, s.atHighest = c, node
	}
}

// found is a check's value and where that is; "" if there is none.
func found(c apiv1.Check, node string) string {
	if !c.Found {
		return ""
	}
	return words.Amount(c.Value, c.Unit) + " (" + node + ")"
}
