package v1

import "net/http"

// longestSnapshot is that of a fabric with some ten thousand ports.
const longestSnapshot = 64 << 20

// Of examples: a public key whose private half does not exist, and a machine on a switch, as ibnetdiscover prints them.
const (
	exampleKey    = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
	exampleCables = `switchguid=0x2c90200300000(2c90200300000)\n` +
		`Switch\t24 \"S-0002c90200300000\"\t# \"leaf1\" enhanced port 0 lid 2 lmc 0\n` +
		`[1]\t\"H-0002c90300500000\"[1](2c90300500001) \t# \"r1n1 mlx4_0\" lid 10 4xQDR\n` +
		`caguid=0x2c90300500000\nCa\t1 \"H-0002c90300500000\"\t# \"r1n1 mlx4_0\"\n` +
		`[1](2c90300500001) \t\"S-0002c90200300000\"[1]\t# lid 10 lmc 0 \"leaf1\" lid 2 4xQDR\n`
)

// Operations on clusters.
var (
	ListClusters = get[ListClustersInput, List[Cluster]]("list-clusters", "/v1/clusters", Endpoint{
		Summary: "List clusters", Tag: "clusters", Action: "browse", Commands: []string{"list"}})
	CreateCluster = post[CreateClusterInput, Answer]("create-cluster", "/v1/clusters", Endpoint{
		Summary: "Create a cluster from a cluster file", Tag: "clusters", Action: "own", Status: http.StatusAccepted,
		Errors: []int{404, 409, 422}, File: true, Unchanged: true,
		Example: "name: cfd\nproject: aero\nnodes: 16\n", Commands: []string{"create"}})
	GetCluster = get[ClusterRef, Cluster]("get-cluster", "/v1/clusters/{cluster}", Endpoint{
		Summary: "Show a cluster and its nodes", Tag: "clusters", Action: "see", Errors: []int{404},
		Commands: []string{"get", "describe", "ssh", "events", "open"}})
	ApplyCluster = put[ApplyClusterInput, Answer]("apply-cluster", "/v1/clusters/{cluster}", Endpoint{
		Summary: "Create a cluster from its file, or change it to match the file", Tag: "clusters", Action: "own",
		Status: http.StatusAccepted, Errors: []int{404, 409, 422}, File: true, Unchanged: true,
		Example:  "name: cfd\nproject: aero\nqueues:\n  - name: cpu\n    min: 2\n    max: 16\n",
		Commands: []string{"apply", "plan"}})
	ScaleCluster = post[ScaleClusterInput, Answer]("scale-cluster", "/v1/clusters/{cluster}/scale", Endpoint{
		Summary: "Change the number of nodes of a queue", Tag: "clusters", Action: "own", Status: http.StatusAccepted,
		Errors: []int{404, 409, 422}, Unchanged: true,
		Example: `{"nodes": 5}`, Commands: []string{"scale"}})
	ChangeRollout = post[ChangeRolloutInput, Answer]("change-rollout", "/v1/clusters/{cluster}/rollout", Endpoint{
		Summary: "Continue a rollout that has stopped, or roll back", Tag: "clusters", Action: "own",
		Status: http.StatusAccepted, Errors: []int{404, 409, 422}, Unchanged: true,
		Example: `{"action": "resume"}`, Commands: []string{"rollout resume", "rollout back"}})
	PauseCluster = post[PauseClusterInput, Answer]("pause-cluster", "/v1/clusters/{cluster}/pause", Endpoint{
		Summary: "Give a cluster's machines back and keep its state", Tag: "clusters", Action: "own",
		Status: http.StatusAccepted, Errors: []int{404, 409, 422}, Unchanged: true, Commands: []string{"pause"}})
	ResumeCluster = post[ResumeClusterInput, Answer]("resume-cluster", "/v1/clusters/{cluster}/resume", Endpoint{
		Summary: "Resume a paused cluster, on machines that are free now", Tag: "clusters", Action: "own",
		Status: http.StatusAccepted, Errors: []int{404, 409, 422}, Unchanged: true, Commands: []string{"resume"}})
	ExtendCluster = post[ExtendClusterInput, Answer]("extend-cluster", "/v1/clusters/{cluster}/extend", Endpoint{
		Summary: "Move the end of a cluster's lease", Tag: "clusters", Action: "own", Status: http.StatusAccepted,
		Errors: []int{404, 409, 422}, Unchanged: true,
		Example: `{"for": "7d"}`, Commands: []string{"extend"}})
	DeleteCluster = del[DeleteClusterInput, Answer]("delete-cluster", "/v1/clusters/{cluster}", Endpoint{
		Summary: "Delete a cluster with its /home", Tag: "clusters", Action: "own", Status: http.StatusAccepted,
		Errors: []int{404}, Commands: []string{"delete"}})
	GetClusterCost = get[GetClusterCostInput, Cost]("get-cluster-cost", "/v1/clusters/{cluster}/cost", Endpoint{
		Summary: "Show what a cluster has cost, also a deleted one", Tag: "usage", Action: "see", Errors: []int{404},
		Commands: []string{"cost"}})
	ListEvents = get[ListEventsInput, List[Event]]("list-events", "/v1/events", Endpoint{
		Summary: "List or watch all events", Tag: "events", Action: "browse", Errors: []int{404, 422},
		Commands: []string{"events"}})
	ListClusterEvents = get[ListClusterEventsInput, List[Event]]("list-cluster-events", "/v1/clusters/{cluster}/events", Endpoint{
		Summary: "List or watch the events of a cluster", Tag: "events", Action: "see", Errors: []int{404, 422},
		Commands: []string{"events", "describe"}})
)

// Operations on ways into clusters.
var (
	Certify = post[CertifyInput, Certificate]("certify", "/v1/clusters/{cluster}/certificate", Endpoint{
		Summary: "Log in to a cluster: have an SSH key signed for a few minutes", Tag: "access", Action: "enter", WayIn: true,
		Errors:  []int{404, 409, 422},
		Example: `{"public_key": "` + exampleKey + `"}`, Commands: []string{"ssh"}})
	Tunnel = get[TunnelInput, Nothing]("tunnel", "/v1/clusters/{cluster}/tunnel", Endpoint{
		Summary: "Log in to a cluster: open a connection to the SSH port of one of its nodes",
		Description: "Upgrades the connection (RFC 9110, 7.8) to " + TunnelProtocol +
			": after the answer 101 both directions carry the SSH connection's bytes.",
		Tag: "access", Action: "enter", Errors: []int{404, 409, 426}, Commands: []string{"tunnel"}})
	OpenTerminal = get[TerminalInput, Nothing]("open-terminal", "/v1/clusters/{cluster}/terminal", Endpoint{
		Summary: "Log in to a cluster: open a terminal in a browser, or show again one that it has opened",
		Description: "A WebSocket of protocol " + TerminalProtocol + ". Bytes are what is typed, 16 KiB a message at most, and " +
			"what the terminal shows. Texts are JSON. The server says {\"terminal\": ID, \"from\": N, \"kept\": N} first: from " +
			"which byte of all that it has shown, and how many were shown before; {\"ended\": WHY} last, \"\" if it ended " +
			"by itself and well; and {} each 20 seconds. The client says {\"resize\": {\"columns\": N, \"rows\": N}} and " +
			"{\"drawn\": N}, how many of the bytes that it was sent it has shown: the terminal waits 20 seconds for it when it is " +
			"128 KiB ahead. Without a client it goes on for 10 minutes. Close code 4001: another client has taken it up.",
		Tag: "access", Action: "enter", Errors: []int{404, 409, 426}})
	OpenApp = post[OpenAppInput, Opened]("open-app", "/v1/clusters/{cluster}/apps/{app}/open", Endpoint{
		Summary: "Get an address that signs a browser in to a web app, once", Tag: "access", Action: "enter",
		Errors: []int{404, 409}, Once: true, Commands: []string{"open"}})
	GetGateway = get[Nothing, Gateway]("get-gateway", "/v1/gateway", Endpoint{
		Summary: "Show the address and host keys of the SSH gateway", Tag: "access", Action: "browse", Errors: []int{403},
		Commands: []string{"gateway", "ssh-config"}})
	RotateGatewayKey = post[RotateGatewayKeyInput, Gateway]("rotate-gateway-key", "/v1/gateway/rotate", Endpoint{
		Summary: "Make the gateways' next host key, which clients learn before it is used", Tag: "access", Action: "run",
		Errors: []int{403, 409, 422}, Commands: []string{"gateway rotate"}})
	ListSessions = get[ListSessionsInput, List[Session]]("list-sessions", "/v1/sessions", Endpoint{
		Summary: "List sessions through the SSH gateway, newest first: all as an operator, those of your projects as their " +
			"owner, and your own",
		Tag: "access", Action: "browse", Errors: []int{403, 422}, Commands: []string{"sessions list"}})
	EndSession = del[EndSessionInput, Nothing]("end-session", "/v1/sessions/{session}", Endpoint{
		Summary: "End a session of yours, or in a project of yours", Tag: "access", Action: "govern", Errors: []int{403, 404},
		Commands: []string{"sessions end"}})
)

// Operations on tasks.
var (
	RunTask = post[RunTaskInput, Task]("run-task", "/v1/clusters/{cluster}/tasks", Endpoint{
		Summary: "Run a program on a cluster as yourself, by its scheduler",
		Description: "The program is started once, or not at all; if it is not known which, the task ends as lost. Tasks end " +
			"with their cluster.",
		Tag: "tasks", Action: "enter", Status: http.StatusAccepted, Errors: []int{403, 404, 409, 422}, Once: true,
		MaxBody: 256 << 10,
		Example: `{"command": ["./solver", "wing.in"], "ranks": 64}`, Commands: []string{"run"}})
	ListTasks = get[ListTasksInput, List[Task]]("list-tasks", "/v1/clusters/{cluster}/tasks", Endpoint{
		Summary: "List a cluster's tasks, the newest last", Tag: "tasks", Action: "see", Errors: []int{404},
		Commands: []string{"tasks list"}})
	GetTask = get[TaskRef, Task]("get-task", "/v1/tasks/{task}", Endpoint{
		Summary: "Show a task; only its user sees what it runs and its samples", Tag: "tasks", Action: "see",
		Errors: []int{404}, Commands: []string{"tasks get", "run"}})
	GetTaskOutput = get[GetTaskOutputInput, TaskOutput]("get-task-output", "/v1/tasks/{task}/output", Endpoint{
		Summary: "Read the output of a task of yours, piece by piece", Tag: "tasks", Action: "see", Errors: []int{403, 404},
		Commands: []string{"tasks output", "run"}})
	CancelTask = del[TaskRef, Task]("cancel-task", "/v1/tasks/{task}", Endpoint{
		Summary: "Cancel a task of yours, or of a project that you own", Tag: "tasks", Action: "own",
		Status: http.StatusAccepted, Errors: []int{403, 404, 409}, Commands: []string{"tasks cancel"}})
)

// Operations on jobs of clusters' schedulers.
var (
	ListJobs = get[ListJobsInput, List[Job]]("list-jobs", "/v1/jobs", Endpoint{
		Summary: "List jobs that have ended, the last first, of clusters that are gone, too", Tag: "jobs", Action: "browse",
		Errors: []int{404, 409}, Commands: []string{"jobs"}})
	ListCurrentJobs = get[ListCurrentJobsInput, List[Job]]("list-current-jobs", "/v1/jobs/current", Endpoint{
		Summary: "List jobs that are pending or run, as heads told some seconds ago: the first 500 of each cluster",
		Tag:     "jobs", Action: "browse", Errors: []int{404}, Commands: []string{"jobs"}})
	CancelJob = del[JobRef, Task]("cancel-job", "/v1/clusters/{cluster}/jobs/{job}", Endpoint{
		Summary: "Cancel a job of yours: the task does it that is returned", Tag: "jobs", Action: "enter",
		Status: http.StatusAccepted, Errors: []int{403, 404, 409}, Commands: []string{"jobs cancel"}})
	ChangeJob = post[ChangeJobInput, Task]("change-job", "/v1/clusters/{cluster}/jobs/{job}/change", Endpoint{
		Summary: "Hold, release or requeue a job of yours: the task does it that is returned", Tag: "jobs", Action: "enter",
		Status: http.StatusAccepted, Errors: []int{403, 404, 409},
		Example: `{"act": "hold"}`, Once: true, Commands: []string{"jobs hold", "jobs release", "jobs requeue"}})
	GetJobOutput = post[JobRef, Task]("get-job-output", "/v1/clusters/{cluster}/jobs/{job}/output", Endpoint{
		Summary: "Read what a job of yours has written: it is the output of the task that is returned", Tag: "jobs",
		Action: "enter", Status: http.StatusAccepted, Errors: []int{403, 404, 409}, Commands: []string{"jobs output"}})
	GetEfficiency = get[GetEfficiencyInput, Efficiencies]("get-efficiency", "/v1/efficiency", Endpoint{
		Summary: "Show what users or projects had for their jobs, and what they used of it", Tag: "jobs", Action: "browse",
		Errors: []int{404}, Commands: []string{"efficiency"}})
)

// Operations on snapshots.
var (
	CreateSnapshot = post[CreateSnapshotInput, Snapshot]("create-snapshot", "/v1/clusters/{cluster}/snapshots", Endpoint{
		Summary: "Save a cluster's /home, job queue and file", Tag: "snapshots", Action: "own", Status: http.StatusAccepted,
		Errors: []int{404, 409, 422}, Once: true,
		Example: `{"name": "tuned"}`, Commands: []string{"snapshot"}})
	ListSnapshots = get[Page, List[Snapshot]]("list-snapshots", "/v1/snapshots", Endpoint{
		Summary: "List snapshots", Tag: "snapshots", Action: "browse", Commands: []string{"snapshots list"}})
	GetSnapshot = get[SnapshotRef, Snapshot]("get-snapshot", "/v1/snapshots/{snapshot}", Endpoint{
		Summary: "Show a snapshot", Tag: "snapshots", Action: "see", Errors: []int{404},
		Commands: []string{"create", "snapshot"}})
	DeleteSnapshot = del[SnapshotRef, Snapshot]("delete-snapshot", "/v1/snapshots/{snapshot}", Endpoint{
		Summary: "Delete a snapshot", Tag: "snapshots", Action: "own", Status: http.StatusAccepted, Errors: []int{404, 409},
		Commands: []string{"snapshots delete"}})
)

// Operations on clusters that Muster did not build.
var (
	ListExternalClusters = get[Page, List[ExternalCluster]]("list-external-clusters", "/v1/external-clusters", Endpoint{
		Summary: "List the external clusters that your projects may use, or all as an operator", Tag: "external-clusters",
		Action: "browse", Errors: []int{403}, Commands: []string{"clusters list", "list"}})
	AddExternalCluster = post[AddExternalClusterInput, ExternalCluster]("add-external-cluster", "/v1/external-clusters", Endpoint{
		Summary: "Register a cluster that Muster did not build", Tag: "external-clusters", Action: "run",
		Status: http.StatusCreated, Errors: []int{403, 404, 409, 422},
		Example: `{"name": "arc", "login": "arc.example.org", "host_keys": ["` + exampleKey + `"],
			"projects": [{"project": "aero", "rule": "same"}]}`,
		Commands: []string{"clusters register"}})
	GetExternalCluster = get[ExternalClusterRef, ExternalCluster]("get-external-cluster",
		"/v1/external-clusters/{external_cluster}", Endpoint{
			Summary: "Show an external cluster and its queues", Tag: "external-clusters", Action: "browse",
			Errors: []int{403, 404}, Commands: []string{"clusters show"}})
	ChangeExternalCluster = put[ChangeExternalClusterInput, ExternalCluster]("change-external-cluster",
		"/v1/external-clusters/{external_cluster}", Endpoint{
			Summary: "Change an external cluster, and probe it again", Tag: "external-clusters", Action: "run",
			Errors: []int{403, 404, 409, 422},
			Example: `{"login": "arc.example.org", "host_keys": ["` + exampleKey + `"],
			"projects": [{"project": "aero", "rule": "same"}]}`,
			Commands: []string{"clusters set"}})
	RemoveExternalCluster = del[ExternalClusterRef, Nothing]("remove-external-cluster",
		"/v1/external-clusters/{external_cluster}", Endpoint{
			Summary: "Forget an external cluster", Tag: "external-clusters", Action: "run", Errors: []int{403, 404},
			Commands: []string{"clusters unregister"}})
	GetExternalClusterAuthority = get[Nothing, ExternalClusterAuthority]("get-external-cluster-authority",
		"/v1/external-cluster-authority", Endpoint{
			Summary: "Show the key that the sshd of external clusters must trust", Tag: "external-clusters", Action: "survey",
			Errors: []int{403}, Commands: []string{"clusters ca"}})
)

// Operations on people, projects and what they may.
var (
	GetLogin = get[Nothing, Ways]("get-login", "/v1/login", Endpoint{
		Summary: "Show how to log in; needs no token", Tag: "access", Open: true, Errors: []int{404, 429, 503},
		Commands: []string{"login"}})
	LogIn = post[LogInInput, LoggedIn]("log-in", "/v1/login", Endpoint{
		Summary: "Log in with the provider's ID token or code; needs no token",
		Description: "Give the ID token of a device flow, or the code of a browser with its verifier, redirect and nonce. " +
			"Each is taken once.",
		Tag: "access", Open: true, Status: http.StatusCreated, Errors: []int{403, 404, 409, 429, 503}, MaxBody: 64 << 10,
		Once:    true,
		Example: `{"id_token": "eyJhbGciOiJFUzI1NiJ9.e30.c2ln"}`, Commands: []string{"login"}})
	OpenConsole = post[Nothing, ConsoleOpened]("open-console", "/v1/console/open", Endpoint{
		Summary: "Get an address that signs a browser in to the console, once", Tag: "access", Action: "be", WayIn: true,
		Once: true, Commands: []string{"console"}})
	SignIn = post[SignInInput, SignedIn]("sign-in", "/v1/console/session", Endpoint{
		Summary: "Sign a browser in to the console, by a cookie; needs no other token",
		Description: "The cookie is good for 12 hours at most, and no longer than the token that it was got with. Requests " +
			"with it are taken from the console's own pages only. Who comes from the provider gets a login that ends " +
			"with the cookie.",
		Tag: "access", Open: true, Errors: []int{403, 404, 409, 429, 503}, MaxBody: 16 << 10, Once: true,
		Example: `{"token": "muster_TOKEN"}`})
	SignOut = del[SignOutInput, Nothing]("sign-out", "/v1/console/session", Endpoint{
		Summary: "Sign a browser out of the console", Tag: "access", Action: "be", Commands: []string{"console"}})
	ListKeys = get[Page, List[Key]]("list-keys", "/v1/keys", Endpoint{
		Summary: "List your SSH keys", Tag: "access", Action: "be", Commands: []string{"keys list"}})
	AddKey = post[AddKeyInput, Key]("add-key", "/v1/keys", Endpoint{
		Summary: "Register an SSH public key for all your clusters", Tag: "access", Action: "keep", WayIn: true,
		Status: http.StatusCreated, Errors: []int{409, 422},
		Example: `{"line": "` + exampleKey + ` vera@laptop"}`, Commands: []string{"keys add"}})
	DeleteKey = del[DeleteKeyInput, Nothing]("delete-key", "/v1/keys/{fingerprint}", Endpoint{
		Summary: "Remove an SSH key", Tag: "access", Action: "keep", Errors: []int{404}, Commands: []string{"keys delete"}})
	ListTokens = get[Page, List[Token]]("list-tokens", "/v1/tokens", Endpoint{
		Summary: "List your tokens", Tag: "access", Action: "be", Commands: []string{"tokens list"}})
	AddToken = post[AddTokenInput, Token]("add-token", "/v1/tokens", Endpoint{
		Summary: "Create a token with your rights, or fewer", Tag: "access", Action: "keep", WayIn: true,
		Status: http.StatusCreated, Errors: []int{403, 404, 409, 422}, Once: true,
		Example: `{"name": "nightly build", "project": "aero", "for": "30d"}`, Commands: []string{"tokens add"}})
	AddPersonToken = post[AddPersonTokenInput, Token]("add-person-token", "/v1/people/{person}/tokens", Endpoint{
		Summary: "Create a token for somebody who cannot log in", Tag: "people", Action: "run", WayIn: true,
		Status: http.StatusCreated, Errors: []int{403, 404, 409, 422}, Once: true,
		Example: `{"name": "nightly build", "for": "30d"}`, Commands: []string{"tokens add"}})
	DeleteToken = del[DeleteTokenInput, Nothing]("delete-token", "/v1/tokens/{token}", Endpoint{
		Summary: "Revoke a token", Tag: "access", Action: "keep", Errors: []int{403, 404},
		Commands: []string{"tokens revoke", "logout"}})
	ListPeople = get[Page, List[Person]]("list-people", "/v1/people", Endpoint{
		Summary: "List the people of the site", Tag: "people", Action: "survey", Errors: []int{403},
		Commands: []string{"users list"}})
	AddPerson = post[AddPersonInput, Person]("add-person", "/v1/people", Endpoint{
		Summary: "Add a person", Tag: "people", Action: "run", WayIn: true, Status: http.StatusCreated,
		Errors:  []int{403, 409},
		Example: `{"name": "vera", "full_name": "Vera Example"}`, Commands: []string{"users add"}})
	ChangePerson = put[ChangePersonInput, Person]("change-person", "/v1/people/{person}", Endpoint{
		Summary: "Change a person", Tag: "people", Action: "run", WayIn: true, Errors: []int{403, 404, 409},
		Example: `{"full_name": "Vera Example"}`, Commands: []string{"users set", "users enable", "users disable"}})
	ListProjects = get[Page, List[Project]]("list-projects", "/v1/projects", Endpoint{
		Summary: "List your projects, or all as an operator", Tag: "projects", Action: "browse", Errors: []int{403},
		Commands: []string{"projects list"}})
	AddProject = post[AddProjectInput, Project]("add-project", "/v1/projects", Endpoint{
		Summary: "Create a project", Tag: "projects", Action: "run", Status: http.StatusCreated, Errors: []int{403, 404, 409},
		Example: `{"name": "aero", "owner": "olga"}`, Commands: []string{"projects add"}})
	ChangeProject = put[ChangeProjectInput, Project]("change-project", "/v1/projects/{project}", Endpoint{
		Summary: "Change a project", Tag: "projects", Action: "govern", Errors: []int{403, 404},
		Example: `{"recorded": true}`, Commands: []string{"projects set"}})
	GetHooks = get[ProjectRef, Hooks]("get-hooks", "/v1/projects/{project}/hooks", Endpoint{
		Summary: "Show the scripts that a project runs around jobs", Tag: "projects", Action: "see", Errors: []int{404},
		Commands: []string{"projects hooks"}})
	SetHooks = put[SetHooksInput, Hooks]("set-hooks", "/v1/projects/{project}/hooks", Endpoint{
		Summary: "Set the scripts that a project runs around jobs", Tag: "projects", Action: "lead",
		Errors:  []int{403, 404, 422},
		Example: `{"prolog": "echo export SCRATCH=/scratch/$USER"}`, Commands: []string{"projects hooks"}})
	GetQuota = get[GetQuotaInput, Quota]("get-quota", "/v1/projects/{project}/quota", Endpoint{
		Summary: "Show a project's quota and what it uses", Tag: "usage", Action: "see", Errors: []int{404},
		Commands: []string{"quota"}})
	ListMembers = get[ListMembersInput, List[Member]]("list-members", "/v1/projects/{project}/members", Endpoint{
		Summary: "List the members of a project", Tag: "projects", Action: "see", Errors: []int{403, 404},
		Commands: []string{"projects members"}})
	SetMember = put[SetMemberInput, Member]("set-member", "/v1/projects/{project}/members/{person}", Endpoint{
		Summary: "Give a person a role in a project: an owner offers it to who is not in it yet", Tag: "projects",
		Action: "govern", Errors: []int{403, 404, 409},
		Example: `{"role": "member"}`, Commands: []string{"projects grant"}})
	RemoveMember = del[RemoveMemberInput, Nothing]("remove-member", "/v1/projects/{project}/members/{person}", Endpoint{
		Summary: "Remove a person from a project: yourself, to leave it or to decline an invitation", Tag: "projects",
		Action: "govern", Errors: []int{403, 404, 409}, Commands: []string{"projects revoke", "projects leave"}})
	JoinProject = post[ProjectRef, Nothing]("join-project", "/v1/projects/{project}/join", Endpoint{
		Summary: "Take the role that you are offered in a project", Tag: "projects", Action: "keep",
		Status: http.StatusNoContent, Errors: []int{403, 404}, Commands: []string{"projects join"}})
	ListAudit = get[ListAuditInput, List[Entry]]("list-audit", "/v1/audit", Endpoint{
		Summary: "List who did what, newest first: all as an operator, those of your projects as their owner, and what you " +
			"did yourself",
		Tag: "access", Action: "browse", Errors: []int{422}, Commands: []string{"audit"}})
)

// Operations on machines.
var (
	ListMachines = get[ListMachinesInput, List[Machine]]("list-machines", "/v1/machines", Endpoint{
		Summary: "List machines", Tag: "machines", Action: "survey", Errors: []int{404, 409},
		Commands: []string{"machines list"}})
	AddMachines = post[AddMachinesInput, List[Machine]]("add-machines", "/v1/machines", Endpoint{
		Summary: "Enrol machines", Tag: "machines", Action: "run", Status: http.StatusCreated, Errors: []int{409, 422},
		Once: true,
		Example: `{"substrate": "metal", "machines": [{"name": "r1n1", "macs": ["0c:c4:7a:00:00:01"],
			"network": "rack1", "power": "redfish://10.78.0.201", "credentials": "secret:bmc"}]}`,
		Commands: []string{"machines add", "machines import"}})
	GetMachine = get[MachineRef, Machine]("get-machine", "/v1/machines/{machine}", Endpoint{
		Summary: "Show a machine", Tag: "machines", Action: "survey", Errors: []int{404}, Commands: []string{"machines get"}})
	InspectMachine = post[MachineRef, Machine]("inspect-machine", "/v1/machines/{machine}/inspect", Endpoint{
		Summary: "Inspect a machine again when it is free", Tag: "machines", Action: "run", Errors: []int{404, 409},
		Commands: []string{"machines inspect"}})
	MaintainMachine = post[MachineRef, Machine]("maintain-machine", "/v1/machines/{machine}/maintain", Endpoint{
		Summary: "Take a machine out of service as soon as it is free", Tag: "machines", Action: "run",
		Errors: []int{404, 409}, Commands: []string{"machines maintain"}})
	DrainMachine = post[MachineRef, Machine]("drain-machine", "/v1/machines/{machine}/drain", Endpoint{
		Summary: "Take a hypervisor out of service and move its guests to other hosts", Tag: "machines", Action: "run",
		Errors: []int{404, 409}, Commands: []string{"machines drain"}})
	FreeMachine = post[MachineRef, Machine]("free-machine", "/v1/machines/{machine}/free", Endpoint{
		Summary: "Put a machine back into service, after an inspection", Tag: "machines", Action: "run",
		Errors: []int{404, 409}, Commands: []string{"machines free"}})
	QuarantineMachine = post[QuarantineMachineInput, Machine]("quarantine-machine", "/v1/machines/{machine}/quarantine", Endpoint{
		Summary: "Quarantine a machine now; a node on it is ended and replaced", Tag: "machines", Action: "run",
		Errors:  []int{404},
		Example: `{"reason": "a fan is loud"}`, Commands: []string{"machines quarantine"}})
	PlaceMachine = put[PlaceMachineInput, Machine]("place-machine", "/v1/machines/{machine}/location", Endpoint{
		Summary: "Say where a machine stands", Tag: "machines", Action: "run", Errors: []int{404, 409, 422},
		Example: `{"location": {"rack": "r01", "unit": 12}}`, Commands: []string{"machines place"}})
	RemoveMachine = del[MachineRef, Machine]("remove-machine", "/v1/machines/{machine}", Endpoint{
		Summary: "Remove a machine from the inventory as soon as it is free", Tag: "machines", Action: "run",
		Errors: []int{404}, Commands: []string{"machines remove"}})
	ListUnknownMachines = get[Page, List[UnknownMachine]]("list-unknown-machines", "/v1/unknown-machines", Endpoint{
		Summary: "List machines that asked to boot but are not enrolled", Tag: "machines", Action: "survey",
		Commands: []string{"machines unknown"}})
	ListTestResults = get[Page, List[TestResult]]("list-test-results", "/v1/test-results", Endpoint{
		Summary: "List the newest test of every machine", Tag: "machines", Action: "survey",
		Commands: []string{"machines health"}})
	ListMachineTestResults = get[MachineRef, List[TestResult]]("list-machine-test-results",
		"/v1/machines/{machine}/test-results", Endpoint{
			Summary: "List the tests on a machine, the newest first", Tag: "machines", Action: "survey", Errors: []int{404},
			Commands: []string{"machines health"}})
)

// Operations on networks and fabrics.
var (
	ListNetworks = get[Page, List[Network]]("list-networks", "/v1/networks", Endpoint{
		Summary: "List the networks that machines boot from", Tag: "machines", Action: "survey",
		Commands: []string{"networks list"}})
	PutNetwork = put[PutNetworkInput, Network]("put-network", "/v1/networks/{network}", Endpoint{
		Summary: "Add a network, or change it", Tag: "machines", Action: "run", Errors: []int{422},
		Example: `{"interface": "eth1", "address": "10.78.0.1/16", "mode": "own", "first": "10.78.1.0", "last": "10.78.1.255",
			"unknown": "ignore"}`,
		Commands: []string{"networks add"}})
	RemoveNetwork = del[NetworkRef, Nothing]("remove-network", "/v1/networks/{network}", Endpoint{
		Summary: "Remove a network that no machine boots from", Tag: "machines", Action: "run", Errors: []int{404, 409},
		Commands: []string{"networks remove"}})
	ListFabrics = get[Page, List[Fabric]]("list-fabrics", "/v1/fabrics", Endpoint{
		Summary: "List the InfiniBand fabrics whose partitions are managed", Tag: "fabrics", Action: "survey",
		Commands: []string{"fabric list"}})
	AddFabric = post[AddFabricInput, Fabric]("add-fabric", "/v1/fabrics", Endpoint{
		Summary: "Manage the partitions of a fabric", Tag: "fabrics", Action: "run", Status: http.StatusCreated,
		Errors:  []int{409, 422},
		Example: `{"name": "ib0", "driver": "opensm", "managers": ["0x0002c903000a0b0c"]}`, Commands: []string{"fabric add"}})
	GetFabric = get[FabricRef, Fabric]("get-fabric", "/v1/fabrics/{fabric}", Endpoint{
		Summary: "Show a fabric with its partitions and ports", Tag: "fabrics", Action: "survey", Errors: []int{404},
		Commands: []string{"fabric get"}})
	RemoveFabric = del[FabricRef, Nothing]("remove-fabric", "/v1/fabrics/{fabric}", Endpoint{
		Summary: "Stop managing a fabric that no cluster uses", Tag: "fabrics", Action: "run", Errors: []int{404, 409},
		Commands: []string{"fabric remove"}})
	DiffFabric = get[FabricRef, FabricDiff]("diff-fabric", "/v1/fabrics/{fabric}/diff", Endpoint{
		Summary: "Show which ports differ from the intended partitions", Tag: "fabrics", Action: "survey", Errors: []int{404},
		Commands: []string{"fabric diff"}})
	ImportFabric = put[ImportFabricInput, Fabric]("import-fabric", "/v1/fabrics/{fabric}/snapshot", Endpoint{
		Summary: "Import a fabric's ports and cables", Tag: "fabrics", Action: "run", Errors: []int{404, 409, 422},
		MaxBody: longestSnapshot,
		Example: `{"snapshot": "` + exampleCables + `"}`, Commands: []string{"fabric import"}})
	PutFabricPartition = put[PutFabricPartitionInput, Fabric]("put-fabric-partition",
		"/v1/fabrics/{fabric}/partitions/{partition}", Endpoint{
			Summary: "Create a partition for the site itself, or change its members", Tag: "fabrics", Action: "run",
			Errors:   []int{404, 422},
			Example:  `{"members": [{"port": "0x0002c903000a0b0c", "membership": "full"}]}`,
			Commands: []string{"fabric infra set"}})
	RemoveFabricPartition = del[FabricPartitionRef, Nothing]("remove-fabric-partition",
		"/v1/fabrics/{fabric}/partitions/{partition}", Endpoint{
			Summary: "Remove one of the site's partitions", Tag: "fabrics", Action: "run", Errors: []int{404},
			Commands: []string{"fabric infra remove"}})
	AssignFabricPort = put[AssignFabricPortInput, Fabric]("assign-fabric-port", "/v1/fabrics/{fabric}/ports/{port}", Endpoint{
		Summary: "Assign a port to a machine", Tag: "fabrics", Action: "run", Errors: []int{404, 409, 422},
		Example: `{"machine": "r1n1"}`, Commands: []string{"fabric assign"}})
	ForgetFabricPort = del[FabricPortRef, Nothing]("forget-fabric-port", "/v1/fabrics/{fabric}/ports/{port}", Endpoint{
		Summary: "Forget a port whose adapter is gone", Tag: "fabrics", Action: "run", Errors: []int{404, 409},
		Commands: []string{"fabric forget"}})
	ListTopologies = get[Page, List[Topology]]("list-topologies", "/v1/topologies", Endpoint{
		Summary: "List how fabrics are cabled and where machines are in them", Tag: "fabrics", Action: "survey",
		Commands: []string{"fabric cables list"}})
	PutTopology = put[PutTopologyInput, Topology]("put-topology", "/v1/topologies/{fabric}", Endpoint{
		Summary: "Import how a fabric is cabled, only for placement", Tag: "fabrics", Action: "run", Errors: []int{409, 422},
		MaxBody: longestSnapshot,
		Example: `{"snapshot": "` + exampleCables + `"}`, Commands: []string{"fabric cables import"}})
	RemoveTopology = del[RemoveTopologyInput, Nothing]("remove-topology", "/v1/topologies/{fabric}", Endpoint{
		Summary: "Forget how a fabric is cabled", Tag: "fabrics", Action: "run", Errors: []int{404, 409},
		Commands: []string{"fabric cables forget"}})
)
