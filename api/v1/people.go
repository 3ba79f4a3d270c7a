package v1

import "time"

// Person is somebody who may come.
type Person struct {
	Name      string    `json:"name" doc:"also the account on the clusters' nodes"`
	UID       int       `json:"uid" doc:"user ID of the account, the same on every node of the site"`
	FullName  string    `json:"full_name,omitempty"`
	Operator  bool      `json:"operator,omitempty" doc:"operator of the site"`
	Disabled  bool      `json:"disabled,omitempty" doc:"locked out everywhere"`
	Subject   string    `json:"subject,omitempty" doc:"issuer and subject of the OIDC identity that logs in as this person"`
	CreatedAt time.Time `json:"created_at"`
}

// Project is a tenant.
type Project struct {
	Name        string    `json:"name"`
	Role        Role      `json:"role,omitempty" doc:"your role in it; absent: none, you see it as an operator"`
	Permissions []Action  `json:"permissions" enum:"see,own,enter,govern,lead" doc:"what you may do in it by the token that you hold"`
	Recorded    bool      `json:"recorded,omitempty" doc:"terminals in its clusters are recorded"`
	Clusters    int       `json:"clusters"`
	Members     int       `json:"members"`
	Invited     Role      `json:"invited,omitempty" doc:"the role that you are offered: join-project takes it, remove-member declines it; of the project you see no more until then"`
	InvitedBy   string    `json:"invited_by,omitempty" doc:"who offers it"`
	CreatedAt   time.Time `json:"created_at"`
}

// Member is a person in a project.
type Member struct {
	Project  string `json:"project"`
	Person   string `json:"person"`
	Role     Role   `json:"role"`
	Disabled bool   `json:"disabled,omitempty" doc:"the person is locked out everywhere"`

	InvitedBy string    `json:"invited_by,omitempty" doc:"who has offered the role; absent: the person has it"`
	Since     time.Time `json:"since"`
	Unapplied []string  `json:"unapplied,omitempty" doc:"when it is set: clusters that do not know it yet, and why; they try again"`
}

// PersonRef is a person in a path.
type PersonRef struct {
	Person string `path:"person" doc:"name" maxLength:"32"`
}

// ProjectRef is a project in a path.
type ProjectRef struct {
	Project string `path:"project" doc:"name" maxLength:"63"`
}

// AddPersonInput is what AddPerson takes.
type AddPersonInput struct {
	Body AddPersonBody
}

// AddPersonBody is the body of a AddPersonInput.
type AddPersonBody struct {
	Name     string `json:"name" doc:"also the account on nodes: a small letter, then small letters, digits, - and _" maxLength:"64"`
	FullName string `json:"full_name,omitempty" maxLength:"200"`
	Operator bool   `json:"operator,omitempty"`
	Subject  string `json:"subject,omitempty" doc:"issuer and subject of the OIDC identity, separated by a space" maxLength:"600"`
}

// ChangePersonInput is what ChangePerson takes.
type ChangePersonInput struct {
	PersonRef
	Body ChangePersonBody
}

// ChangePersonBody is the body of a ChangePersonInput.
type ChangePersonBody struct {
	FullName *string `json:"full_name,omitempty" maxLength:"200"`
	Operator *bool   `json:"operator,omitempty"`
	Disabled *bool   `json:"disabled,omitempty" doc:"true ends their sessions and locks them out everywhere; false undoes this"`
	Subject  *string `json:"subject,omitempty" doc:"empty: cannot log in" maxLength:"600"`
}

// AddProjectInput is what AddProject takes.
type AddProjectInput struct {
	Body AddProjectBody
}

// AddProjectBody is the body of a AddProjectInput.
type AddProjectBody struct {
	Name     string `json:"name" pattern:"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$" maxLength:"63"`
	Owner    string `json:"owner" doc:"the person who manages its members" maxLength:"32"`
	Recorded bool   `json:"recorded,omitempty" doc:"record terminals in its clusters"`
}

// ChangeProjectInput is what ChangeProject takes.
type ChangeProjectInput struct {
	ProjectRef
	Body ChangeProjectBody
}

// ChangeProjectBody is the body of a ChangeProjectInput.
type ChangeProjectBody struct {
	Recorded *bool `json:"recorded,omitempty" doc:"record terminals in its clusters from now on"`
}

// Hooks are scripts that a project runs around each job of its clusters, once on each of the job's nodes, as its user.
type Hooks struct {
	Prolog string `json:"prolog,omitempty" doc:"before the job's programs. What it prints as export NAME=value is set for them; if it fails the job is cancelled" maxLength:"16384"`
	Epilog string `json:"epilog,omitempty" doc:"after them" maxLength:"16384"`
}

// SetHooksInput is what SetHooks takes.
type SetHooksInput struct {
	ProjectRef
	Body Hooks
}

// ListMembersInput is what ListMembers takes.
type ListMembersInput struct {
	ProjectRef
	Page
}

// SetMemberInput is what SetMember takes.
type SetMemberInput struct {
	ProjectRef
	PersonRef
	Body SetMemberBody
}

// SetMemberBody is the body of a SetMemberInput.
type SetMemberBody struct {
	Role Role `json:"role"`
}

// RemoveMemberInput is what RemoveMember takes.
type RemoveMemberInput struct {
	ProjectRef
	PersonRef
}
