package cluster_test

import (
	"testing"

	"muster/internal/kinds/cluster"
	"muster/internal/kinds/kindstest"
)

func TestClustersOfANameAreFoundByIndex(t *testing.T) {
	kindstest.Each(t, func(t *testing.T, url string) {
		s := kindstest.Open(t, url)
		kindstest.AddCluster(t, s, "c1", "alpha")
		kindstest.UsesIndex(t, s, "cluster_by_name", cluster.NamedQuery, "alpha")
	})
}
