package monitor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// Each value that a call says takes hundreds of bytes here, however short it is there: so many values a call, and so many calls
// at once that are longer than most.
const (
	mostValues = 1 << 17 // a head that tells of 5,000 jobs says 110,000
	longCall   = 64 << 10
	longEach   = 2
	longAll    = 16
)

// read takes a call's body of so many bytes at most, or answers why it is not understood.
func read(w http.ResponseWriter, r *http.Request, most int64, into any) bool {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if err == nil && bytes.Count(body, []byte{','}) > mostValues {
		err = fmt.Errorf("more than %d values", mostValues)
	}
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		http.Error(w, "unreadable: "+err.Error(), http.StatusBadRequest)
	}
	return err == nil
}
