package protocol

// MailPath is where a head delivers letters, by Letters → Posted.
const MailPath = "/agent/v1/mail"

// MailDir is where a head's scheduler leaves letters, each in a file whose name ends in MailName: the recipient, the user whom it
// is about, and the subject, a line each.
const (
	MailDir  = "/run/muster/mail"
	MailName = ".letter"
)

// MostLetters are sent at a time.
const MostLetters = 50

// Letters are those that wait on a head, the oldest first.
type Letters struct {
	Letters []Letter `json:"letters" most:"50"`
}

// Letter tells somebody of a job.
type Letter struct {
	To      string `json:"to"`   // an address, or a name
	User    string `json:"user"` // of the job
	Subject string `json:"subject"`
}

// Posted says how many of them need not be sent again: the first ones.
type Posted struct {
	Done int `json:"done"`
}
