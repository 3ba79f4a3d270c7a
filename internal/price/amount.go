package price

import (
	"fmt"
	"strconv"
	"strings"
)

// Amount is an amount of money, in millionths of the currency's unit so that sums are exact. What it is for, the field that
// holds it says: a node's hour, a GiB's month, all of a budget.
type Amount struct {
	Micros   int64
	Currency string // ISO 4217; "" where there is no price
}

// mostDigits keeps the product of a price and a year's milliseconds within 128 bits, with room to spare.
const mostDigits = 12

// Parse reads "1.25 EUR".
func Parse(s string) (Amount, error) {
	amount, currency, ok := strings.Cut(strings.TrimSpace(s), " ")
	whole, fraction, _ := strings.Cut(amount, ".")
	fraction = (fraction + "000000")[:max(6, len(fraction))]
	digits, err := strconv.ParseUint(whole+fraction, 10, 62)
	if !ok || !isCurrency(currency) || len(fraction) > 6 || len(whole) > mostDigits || err != nil || whole == "" {
		return Amount{}, fmt.Errorf("%q is not an amount of money; write for example \"1.25 EUR\"", s)
	}
	return Amount{Micros: int64(digits), Currency: currency}, nil
}

func isCurrency(s string) bool {
	return len(s) == 3 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// Plus adds two amounts; a site has one currency.
func (p Amount) Plus(q Amount) Amount {
	if p.Currency == "" {
		p.Currency = q.Currency
	}
	return Amount{Micros: p.Micros + q.Micros, Currency: p.Currency}
}

// Times is n times the amount.
func (p Amount) Times(n int) Amount { return Amount{Micros: p.Micros * int64(n), Currency: p.Currency} }

// String is the amount with at least two decimals and no needless ones: "3.75 EUR"; "" where there is no price.
func (p Amount) String() string {
	if p.Currency == "" {
		return ""
	}
	s := strings.TrimRight(fmt.Sprintf("%d.%06d", p.Micros/1e6, p.Micros%1e6), "0")
	_, decimals, _ := strings.Cut(s, ".")
	return s + strings.Repeat("0", max(0, 2-len(decimals))) + " " + p.Currency
}
