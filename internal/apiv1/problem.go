package apiv1

import (
	"time"

	"muster/internal/spec"
)

// Problem is how every error is told (RFC 9457), with a stable code and what is wrong in detail.
type Problem struct {
	Title  string           `json:"title" doc:"the status in words"`
	Status int              `json:"status"`
	Code   string           `json:"code" doc:"stable; programs may branch on it" enum:"invalid,no-capacity,quota,budget,conflict,not-found,unauthorized,forbidden,internal,unavailable"`
	Detail string           `json:"detail" doc:"what is wrong and what would work, as text for people"`
	FitsAt *time.Time       `json:"fits_at,omitempty" doc:"a start with which it would fit, where one is known"`
	Errors spec.Diagnostics `json:"errors,omitempty" doc:"one entry per error: where, what, and what would work"`

	Cause error `json:"-"` // what only the log is told
}

func (p *Problem) Error() string { return p.Detail }

// GetStatus is the HTTP status that it is told with.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType is that of RFC 9457.
func (p *Problem) ContentType(string) string { return "application/problem+json" }
