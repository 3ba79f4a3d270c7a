package v1

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// Request is what is asked as a request to the controller at an address, such as https://muster.example.org, with a token; "":
// without one.
func (a Ask) Request(ctx context.Context, address, token string) (*http.Request, error) {
	target := address + a.Path
	if len(a.Query) > 0 {
		target += "?" + a.Query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, a.Operation.Method, target, bytes.NewReader(a.Body))
	if err != nil {
		return nil, err
	}
	request.Header = a.Header.Clone()
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	if a.ContentType != "" {
		request.Header.Set("Content-Type", a.ContentType)
	}
	return request, nil
}

// HTTP is a client of the controller at Address that asks once. An answer that is none of a good one is a *Problem.
type HTTP struct {
	Address string
	Token   string
	Client  *http.Client // nil: http.DefaultClient
}

// Do asks for an operation and returns the answer's body.
func (h HTTP) Do(ctx context.Context, ask Ask) ([]byte, error) {
	request, err := ask.Request(ctx, h.Address, h.Token)
	if err != nil {
		return nil, err
	}
	response, err := cmp.Or(h.Client, http.DefaultClient).Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return nil, ReadProblem(h.Address, response, text)
	}
	return text, nil
}

// ReadProblem reads what a controller says is wrong, of an answer from an address and its body. Another program's answer, which
// says nothing that makes sense, is told by its status.
func ReadProblem(address string, response *http.Response, body []byte) *Problem {
	p := &Problem{}
	if err := json.Unmarshal(body, p); err != nil || p.Code == "" {
		*p = Problem{Title: response.Status, Detail: fmt.Sprintf("%s answered %s", address, response.Status)}
		if response.StatusCode < http.StatusInternalServerError {
			p.Detail += "; is it a Muster controller?"
		}
	}
	p.Status = response.StatusCode
	return p
}
