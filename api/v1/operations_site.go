package v1

// Operations on the site.
var (
	GetSite = get[Nothing, Site]("get-site", "/v1/site", Endpoint{
		Summary: "Show the site and who you are", Tag: "catalogue", Action: "be", Commands: []string{"whoami", "open"}})
	GetStatus = get[Nothing, Status]("get-status", "/v1/status", Endpoint{
		Summary: "Show the state of the site", Tag: "catalogue", Action: "survey",
		Commands: []string{"status", "alarms list", "alarms acknowledge"}})
	ListMoments = get[ListMomentsInput, List[Moment]]("list-moments", "/v1/status/day", Endpoint{
		Summary:     "Show how many there were of everything in the last day",
		Description: "The oldest comes first, and all are on one page.",
		Tag:         "site", Action: "survey", Commands: []string{"status"}})
	AcknowledgeAlarm = put[AcknowledgeAlarmInput, Alarm]("acknowledge-alarm", "/v1/alarms/{alarm}/acknowledgement", Endpoint{
		Summary:     "Say that you know of an alarm",
		Description: "The alarm stands until its cause is gone. That you know of it counts until it tells of something newer.",
		Tag:         "site", Action: "run", Errors: []int{404, 409, 422},
		Example: `{"note": "the vendor comes on Monday", "for": "3d"}`, Commands: []string{"alarms acknowledge"}})
	ListClasses = get[Page, List[Class]]("list-classes", "/v1/classes", Endpoint{
		Summary: "List the site's classes", Tag: "catalogue", Action: "browse", Commands: []string{"classes"}})
	ListImages = get[Page, List[Image]]("list-images", "/v1/images", Endpoint{
		Summary: "List images", Tag: "catalogue", Action: "browse", Commands: []string{"images list"}})
	GetCalendar = get[GetCalendarInput, Calendar]("get-calendar", "/v1/calendar", Endpoint{
		Summary: "Show which machines are free, held and reserved when", Tag: "catalogue", Action: "browse",
		Errors: []int{404}, Commands: []string{"calendar"}})
	GetUsage = get[GetUsageInput, Statement]("get-usage", "/v1/usage", Endpoint{
		Summary: "Show what projects have used, this month or at any time", Tag: "usage", Action: "browse",
		Commands: []string{"cost"}})
	ListSecrets = get[Nothing, Secrets]("list-secrets", "/v1/secrets", Endpoint{
		Summary: "List the site's secrets, without their values", Tag: "site", Action: "run",
		Commands: []string{"secrets list"}})
	RotateSecrets = post[RotateSecretsInput, Secrets]("rotate-secrets", "/v1/secrets/rotate", Endpoint{
		Summary: "Rotate secrets of the site, while everything runs", Tag: "site", Action: "run",
		Errors:  []int{404, 409, 422},
		Example: `{"names": ["root"]}`, Commands: []string{"secrets rotate"}})
	RekeySecrets = post[Nothing, Secrets]("rekey-secrets", "/v1/secrets/rekey", Endpoint{
		Summary: "Encrypt the secrets in the database with a new key", Tag: "site", Action: "run", Errors: []int{409},
		Commands: []string{"secrets rekey"}})
)
