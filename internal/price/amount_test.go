package price

import "testing"

func TestPricesAreExact(t *testing.T) {
	p, err := Parse("0.1 EUR")
	if err != nil {
		t.Fatal(err)
	}
	var sum Amount
	for range 30 {
		sum = sum.Plus(p)
	}
	if sum.String() != "3.00 EUR" || (Amount{}).String() != "" {
		t.Error(sum)
	}
	for _, bad := range []string{"", "1", "EUR", "1 eur", "-1 EUR", "1.2345678 EUR", "1e3 EUR", ".5 EUR", "1 EURO"} {
		if p, err := Parse(bad); err == nil {
			t.Errorf("%q reads as %v", bad, p)
		}
	}
}
