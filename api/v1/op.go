// Package v1 is the API as its users see it: the types that go over the wire, one table of operations, and a client
// that is typed by it. It is a leaf: server, command line and programs of others stand on it, and it knows none of them.
//
//	machines, err := v1.All(ctx, client, v1.ListMachines, v1.ListMachinesInput{})
//
// What enters: nothing but a caller's input. What leaves: requests, and answers read into types.
package v1

import "net/http"

// Endpoint is one operation of the table: how it is asked for, who may, and what answers. The server's routes, access checks and
// OpenAPI document, and the client's requests, follow from it.
type Endpoint struct {
	ID          string // stable: the audit log and the OpenAPI document call it so
	Method      string
	Path        string // what stands in braces is a field of the input
	Summary     string // in one line
	Description string // more, where a line does not do
	Tag         string // the chapter of the OpenAPI document

	Action string // what it is as an act, such as "own": who may follows from that
	Open   bool   // everybody may, without a token
	WayIn  bool   // gives a way in that may outlast the caller's own; refused to a browser that is signed in

	Status    int    // of a good answer; 0: 200, or 204 where there is nothing to say
	Errors    []int  // statuses that are its own; every operation may also answer with those of CommonErrors
	MaxBody   int64  // bytes; 0: 1 MiB of a file and of what operators ask for, else 128 KiB
	File      bool   // the body is a cluster file, in YAML or JSON
	Bytes     bool   // the body, or of a GET the answer, is any number of bytes, which are no text
	Example   string // of a body: JSON, or YAML of a cluster file
	Once      bool   // asking twice does it twice: it is not asked again when an answer was lost
	Unchanged bool   // 200, with the same type, says that there was nothing to do or that it was a dry run

	Commands []string // words of the command line that ask for it
}

// CommonErrors are the statuses that every operation may answer with, and those with a body.
func CommonErrors(body bool) []int {
	statuses := []int{http.StatusUnauthorized, http.StatusUnprocessableEntity, http.StatusTooManyRequests,
		http.StatusInternalServerError, http.StatusServiceUnavailable}
	if body {
		statuses = append(statuses, http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	return statuses
}

// Op is an operation with the types of what it takes and what it answers. In has fields with the tags path, query and
// header, and at most one field Body, sent as JSON, or RawBody.
type Op[In, Out any] struct{ Endpoint }

func get[In, Out any](id, path string, e Endpoint) Op[In, Out] {
	return at[In, Out](http.MethodGet, id, path, e)
}

func post[In, Out any](id, path string, e Endpoint) Op[In, Out] {
	return at[In, Out](http.MethodPost, id, path, e)
}

func put[In, Out any](id, path string, e Endpoint) Op[In, Out] {
	return at[In, Out](http.MethodPut, id, path, e)
}

func del[In, Out any](id, path string, e Endpoint) Op[In, Out] {
	return at[In, Out](http.MethodDelete, id, path, e)
}

func at[In, Out any](method, id, path string, e Endpoint) Op[In, Out] {
	e.Method, e.ID, e.Path = method, id, path
	return Op[In, Out]{e}
}

// Nothing is what operations take that need no input, and answer that have nothing to say.
type Nothing struct{}

// Page says which part of a list.
type Page struct {
	Limit  int    `query:"limit" default:"100" minimum:"1" maximum:"1000" doc:"how many at most"`
	Cursor string `query:"cursor" doc:"from the page before" maxLength:"200"`
}

// List is one page.
type List[T any] struct {
	Next  string `json:"next,omitempty" doc:"cursor of the next page; absent on the last"` // before the items: see nextOf
	Items []T    `json:"items"`
}
