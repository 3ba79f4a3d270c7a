package v1

import "net/http"

// Operations on the site.
var (
	GetSite = Op[Nothing, Site]{Endpoint{ID: "get-site", Method: http.MethodGet, Path: "/v1/site",
		Summary: "Show the site and who you are",
		Tag:     "catalogue", Action: "be",
		Commands: []string{"whoami", "open"}}}
	GetStatus = Op[Nothing, Status]{Endpoint{ID: "get-status", Method: http.MethodGet, Path: "/v1/status",
		Summary: "Show the state of the site",
		Tag:     "catalogue", Action: "survey",
		Commands: []string{"status", "alarms list", "alarms acknowledge"}}}
	ListMoments = Op[ListMomentsInput, List[Moment]]{Endpoint{ID: "list-moments", Method: http.MethodGet,
		Path:        "/v1/status/day",
		Summary:     "Show how many there were of everything in the last day",
		Description: "The oldest comes first, and all are on one page.",
		Tag:         "site", Action: "survey",
		Commands: []string{"status"}}}
	AcknowledgeAlarm = Op[AcknowledgeAlarmInput, Alarm]{Endpoint{ID: "acknowledge-alarm", Method: http.MethodPut,
		Path:        "/v1/alarms/{alarm}/acknowledgement",
		Summary:     "Say that you know of an alarm",
		Description: "The alarm stands until its cause is gone. That you know of it counts until it tells of something newer.",
		Tag:         "site", Action: "run", Errors: []int{404, 409, 422},
		Example:  `{"note": "the vendor comes on Monday", "for": "3d"}`,
		Commands: []string{"alarms acknowledge"}}}
	ListClasses = Op[Page, List[Class]]{Endpoint{ID: "list-classes", Method: http.MethodGet, Path: "/v1/classes",
		Summary: "List the site's classes",
		Tag:     "catalogue", Action: "browse",
		Commands: []string{"classes"}}}
	ListImages = Op[Page, List[Image]]{Endpoint{ID: "list-images", Method: http.MethodGet, Path: "/v1/images",
		Summary: "List images",
		Tag:     "catalogue", Action: "browse",
		Commands: []string{"images list"}}}
	GetCalendar = Op[GetCalendarInput, Calendar]{Endpoint{ID: "get-calendar", Method: http.MethodGet, Path: "/v1/calendar",
		Summary: "Show which machines are free, held and reserved when",
		Tag:     "catalogue", Action: "browse", Errors: []int{404},
		Commands: []string{"calendar"}}}
	GetUsage = Op[GetUsageInput, Statement]{Endpoint{ID: "get-usage", Method: http.MethodGet, Path: "/v1/usage",
		Summary: "Show what projects have used, this month or at any time",
		Tag:     "usage", Action: "browse",
		Commands: []string{"cost"}}}
	ListSecrets = Op[Nothing, Secrets]{Endpoint{ID: "list-secrets", Method: http.MethodGet, Path: "/v1/secrets",
		Summary: "List the site's secrets, without their values",
		Tag:     "site", Action: "run",
		Commands: []string{"secrets list"}}}
	RotateSecrets = Op[RotateSecretsInput, Secrets]{Endpoint{ID: "rotate-secrets", Method: http.MethodPost,
		Path:    "/v1/secrets/rotate",
		Summary: "Rotate secrets of the site, while everything runs",
		Tag:     "site", Action: "run", Errors: []int{404, 409, 422},
		Example:  `{"names": ["root"]}`,
		Commands: []string{"secrets rotate"}}}
	RekeySecrets = Op[Nothing, Secrets]{Endpoint{ID: "rekey-secrets", Method: http.MethodPost, Path: "/v1/secrets/rekey",
		Summary: "Encrypt the secrets in the database with a new key",
		Tag:     "site", Action: "run", Errors: []int{409},
		Commands: []string{"secrets rekey"}}}
)
