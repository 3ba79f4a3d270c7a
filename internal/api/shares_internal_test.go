package api

import (
	"net/http/httptest"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/humatest"

	apiv1 "muster/api/v1"
	"muster/internal/kit/limit"
)

func TestRequestsThatAddUpMuchHaveAShareOfTheirOwn(t *testing.T) {
	shares := NewShares(1000, nil)
	of := func(operation string) *limit.Share {
		r := httptest.NewRequest("GET", "/", nil)
		return shares.of(humatest.NewContext(&huma.Operation{OperationID: operation}, r, httptest.NewRecorder()))
	}
	for _, operation := range []string{apiv1.GetUsage.ID, apiv1.GetClusterCost.ID, apiv1.GetEfficiency.ID, apiv1.GetCalendar.ID,
		apiv1.CompareBenchmarks.ID, apiv1.ListTrends.ID, apiv1.ListBenchmarkRounds.ID} {
		if of(operation) != &shares.sums {
			t.Errorf("%s takes from another share", operation)
		}
	}
	if of(apiv1.ListClusters.ID) == &shares.sums {
		t.Error("a list of clusters adds nothing up")
	}
	for n := range eachSums + 1 {
		if _, over := shares.sums.Enter("ada", false); (over != nil) != (n == eachSums) {
			t.Errorf("%d at once: %v", n+1, over)
		}
	}
}
