package apiv1

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
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
		return out, nil, o.senseless(err)
	}
	return out, raw, nil
}

func (o Op[In, Out]) senseless(err error) error {
	return fmt.Errorf("the answer to %s %s makes no sense: %w", o.Method, o.Path, err)
}

// mostOfAPage is how many a page holds at most.
const mostOfAPage = "1000"

// All asks for every page of a list. It returns the items, and the list as one answer with the items as they came. The items of
// a page are read while the next page is on its way.
func All[In, T any](ctx context.Context, c Client, op Op[In, List[T]], in In) (items []T, raw []byte, err error) {
	var texts [][]byte
	pages, unread := make(chan json.RawMessage), make(chan error)
	go func() {
		var failed error
		for page := range pages {
			var some []T
			if err := json.Unmarshal(page, &some); err != nil {
				failed = op.senseless(err)
			} else if len(some) > 0 {
				items, texts = append(items, some...), append(texts, page[1:len(page)-1])
			}
		}
		unread <- failed
	}()
	err = op.pages(ctx, c, in, pages)
	close(pages)
	if err = cmp.Or(err, <-unread); err != nil {
		return nil, nil, err
	}
	return items, slices.Concat([]byte(`{"items":[`), bytes.Join(texts, []byte(",")), []byte("]}")), nil
}

// pages asks for every page of a list, and hands over the items of each.
func (o Op[In, Out]) pages(ctx context.Context, c Client, in In, pages chan<- json.RawMessage) error {
	ask := o.Ask(in)
	ask.Query.Set("limit", mostOfAPage)
	for {
		raw, err := c.Do(ctx, ask)
		if err != nil {
			return err
		}
		var page struct {
			Items json.RawMessage `json:"items"`
			Next  string          `json:"next"`
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			return o.senseless(err)
		}
		if page.Items != nil {
			pages <- page.Items
		}
		if page.Next == "" {
			return nil
		}
		ask.Query.Set(cursorOf(reflect.TypeFor[In]()), page.Next)
	}
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
