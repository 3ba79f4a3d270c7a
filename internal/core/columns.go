package core

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"reflect"
	"time"
)

// Time reads a column of milliseconds since 1970 into t. 0 and NULL are the zero time.
func Time(t *time.Time) sql.Scanner { return (*timeColumn)(t) }

type timeColumn time.Time

func (c *timeColumn) Scan(value any) error {
	var ms sql.NullInt64
	err := ms.Scan(value)
	*c = timeColumn(Instant(ms.Int64))
	return err
}

// Span reads a column that counts units of time into d. NULL is 0.
func Span(d *time.Duration, unit time.Duration) sql.Scanner { return spanColumn{d, unit} }

type spanColumn struct {
	to   *time.Duration
	unit time.Duration
}

func (c spanColumn) Scan(value any) error {
	var n sql.NullInt64
	err := n.Scan(value)
	*c.to = time.Duration(n.Int64) * c.unit
	return err
}

// JSON is a column of JSON: v's, to be written, or what v points to, to be read. An empty text and NULL leave that as it is, and
// a nil pointer is written as an empty text.
func JSON(v any) interface {
	sql.Scanner
	driver.Valuer
} {
	return jsonColumn{v}
}

type jsonColumn struct{ v any }

func (c jsonColumn) Scan(value any) error {
	var text sql.NullString
	if err := text.Scan(value); err != nil || text.String == "" {
		return err
	}
	return json.Unmarshal([]byte(text.String), c.v)
}

func (c jsonColumn) Value() (driver.Value, error) {
	if v := reflect.ValueOf(c.v); v.Kind() == reflect.Pointer && v.IsNil() {
		return "", nil
	}
	text, err := json.Marshal(c.v)
	return string(text), err
}

// Fields scans a row into a new value: where says where in it the columns go. For List, One and Each.
func Fields[T any](where func(*T) []any) func(Scanner) (T, error) {
	return func(r Scanner) (value T, err error) {
		err = r.Scan(where(&value)...)
		return value, err
	}
}

// Value scans a row of one column, for List, One and Each.
func Value[T any](r Scanner) (value T, err error) {
	err = r.Scan(&value)
	return value, err
}

// Pairs reads the rows of a query of two columns as a map.
func Pairs[K comparable, V any](ctx context.Context, tx *Tx, query string, args ...any) (map[K]V, error) {
	type pair struct {
		key   K
		value V
	}
	all := map[K]V{}
	err := Each(ctx, tx, Fields(func(p *pair) []any { return []any{&p.key, &p.value} }), func(p pair) error {
		all[p.key] = p.value
		return nil
	}, query, args...)
	return all, err
}
