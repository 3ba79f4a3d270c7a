package v1

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strings"
)

// Ask is an operation that is asked for: an HTTP request without the server that it goes to.
type Ask struct {
	Operation   Endpoint
	Path        string // below the controller's address, escaped
	Query       url.Values
	Header      http.Header
	ContentType string // of the body; "" without one
	Body        []byte
}

// Client carries what is asked to a controller and brings the answer's body, or an error for a status that is none of a
// good answer. It decides whether something is asked again whose answer was lost.
type Client interface {
	// Do asks once, or more often as the client decides. Its answer is the body as it came.
	Do(ctx context.Context, ask Ask) ([]byte, error)
}

// Ask is the request for an operation. Fields that have no value are left out; the server knows their defaults.
func (o Op[In, Out]) Ask(in In) Ask {
	ask := Ask{Operation: o.Endpoint, Path: o.Path, Query: url.Values{}, Header: http.Header{}}
	ask.fill(reflect.ValueOf(in))
	return ask
}

// fill takes over the fields of an input by their tags.
func (a *Ask) fill(in reflect.Value) {
	for i := range in.NumField() {
		field, value := in.Type().Field(i), in.Field(i)
		switch tag := field.Tag; {
		case tag.Get("path") != "":
			a.Path = strings.Replace(a.Path, "{"+tag.Get("path")+"}", url.PathEscape(fmt.Sprint(value.Interface())), 1)
		case tag.Get("query") != "":
			if !value.IsZero() {
				a.Query.Set(tag.Get("query"), text(value))
			}
		case tag.Get("header") != "":
			if !value.IsZero() {
				a.Header.Set(tag.Get("header"), text(value))
			}
		case field.Name == "Body":
			body, err := json.Marshal(value.Interface())
			if err != nil {
				panic(err) // the types of this package always marshal
			}
			a.ContentType, a.Body = "application/json", body
		case field.Name == "RawBody":
			a.ContentType, a.Body = tag.Get("contentType"), value.Bytes()
		case field.Anonymous:
			a.fill(value)
		}
	}
}

// text is a value as it stands in a query or a header.
func text(value reflect.Value) string {
	if marshals, ok := value.Interface().(interface{ MarshalText() ([]byte, error) }); ok {
		if text, err := marshals.MarshalText(); err == nil {
			return string(text)
		}
	}
	return fmt.Sprint(value.Interface())
}

// Call asks for the operation. It returns the answer, also as it came.
func (o Op[In, Out]) Call(ctx context.Context, c Client, in In) (out Out, raw []byte, err error) {
	if raw, err = c.Do(ctx, o.Ask(in)); err != nil || len(raw) == 0 {
		return out, raw, err
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return out, nil, fmt.Errorf("the answer to %s %s makes no sense: %w", o.Method, o.Path, err)
	}
	return out, raw, nil
}

// mostOfAPage is how many a page holds at most.
const mostOfAPage = "1000"

// All asks for every page of a list and returns the items; none is an empty list. While a page is read the next one is on its
// way: from the second on, c.Do is called from a goroutine of All's own, one call at a time; no call outlives All.
func All[In, T any](ctx context.Context, c Client, op Op[In, List[T]], in In) ([]T, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ask, items := op.Ask(in), []T{}
	ask.Query.Set("limit", mostOfAPage)
	begin := func(cursor string) <-chan answer {
		ask.Query.Set(cursorOf(reflect.TypeFor[In]()), cursor)
		coming := make(chan answer, 1)
		go func() {
			text, err := c.Do(ctx, ask)
			coming <- answer{text, err}
		}()
		return coming
	}
	text, err := c.Do(ctx, ask)
	for err == nil {
		var coming <-chan answer
		if next := nextOf(text); next != "" {
			coming = begin(next)
		}
		var page List[T]
		if err := json.Unmarshal(text, &page); err != nil {
			if coming != nil {
				cancel()
				<-coming
			}
			return nil, fmt.Errorf("the answer to %s %s makes no sense: %w", op.Method, op.Path, err)
		}
		items = append(items, page.Items...)
		switch {
		case page.Next == "":
			return items, nil
		case coming == nil:
			coming = begin(page.Next)
		}
		got := <-coming
		text, err = got.text, got.err
	}
	return nil, err
}

type answer struct {
	text []byte
	err  error
}

// nextOf is the cursor that a page begins with, for which its items need not be read; "" if it begins with something else.
func nextOf(page []byte) (next string) {
	fields := json.NewDecoder(bytes.NewReader(page))
	_, _ = fields.Token()
	if name, err := fields.Token(); err == nil && name == "next" {
		_ = fields.Decode(&next)
	}
	return next
}

// cursorOf is the parameter that asks for a list's next page: events are counted.
func cursorOf(in reflect.Type) string {
	for _, field := range reflect.VisibleFields(in) {
		if field.Tag.Get("query") == "cursor" {
			return "cursor"
		}
	}
	return "after"
}
