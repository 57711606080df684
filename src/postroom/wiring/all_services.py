"""Every service, built once: the only place where they are put together."""

from __future__ import annotations

from postroom.encryption import Keyring, without_key
from postroom.sender.in_doubt import InDoubtService
from postroom.services.accounts.access_links import AccessLinks, UserRemoval
from postroom.services.accounts.api_keys import ApiKeyService
from postroom.services.accounts.audit import AuditService
from postroom.services.accounts.groups import GroupService
from postroom.services.accounts.list_access import ListAccessService
from postroom.services.accounts.list_grants import ListGrants
from postroom.services.accounts.sessions import SessionService
from postroom.services.accounts.users import UserService
from postroom.services.audience.bounces.identification import BounceIdentification
from postroom.services.audience.bounces.intake import BounceIntake
from postroom.services.audience.bounces.processing import BounceProcessing
from postroom.services.audience.bounces.sent_addresses import SentAddresses
from postroom.services.audience.consent.consent_ledger import ConsentLedger
from postroom.services.audience.consent.ip_digests import IpDigests
from postroom.services.audience.erasure import PersonalDataService
from postroom.services.audience.fields.field_changes import FieldChanges
from postroom.services.audience.fields.list_fields import FieldService
from postroom.services.audience.files.exports import ExportService
from postroom.services.audience.files.imports import ImportService
from postroom.services.audience.files.runs.import_files import ImportFiles
from postroom.services.audience.growth.list_growth import GrowthService, ListCounts
from postroom.services.audience.growth.list_movements import ListMovements
from postroom.services.audience.growth.list_sizes import ListSizes
from postroom.services.audience.list_emails import ListEmailService
from postroom.services.audience.lists import ListService, LogoService
from postroom.services.audience.personal_data import TraceService
from postroom.services.audience.results.ab_testing import AbTestService
from postroom.services.audience.results.engagement import EngagementRows
from postroom.services.audience.results.message_results import ResultService
from postroom.services.audience.results.message_unsubscribes import MessageUnsubscribes
from postroom.services.audience.results.people import PeopleRows
from postroom.services.audience.results.personal_hits import PersonalHits
from postroom.services.audience.results.results_over_time import OverTimeService
from postroom.services.audience.results.segment_results import SegmentResults
from postroom.services.audience.signup.foreign_ids import ForeignIds
from postroom.services.audience.signup.preferences import PreferenceService
from postroom.services.audience.signup.proofs import ProofService
from postroom.services.audience.signup.signup_limits import SignupLimits
from postroom.services.audience.signup.subscriptions import SubscriptionService
from postroom.services.audience.signup.unsubscribes import Unsubscribes
from postroom.services.audience.signup.welcomes import WelcomeService
from postroom.services.audience.subscriber_rows import SubscriberRows
from postroom.services.audience.subscriber_search import SubscriberSearch
from postroom.services.audience.suppression.delivery_figures import DeliveryFigureService
from postroom.services.audience.suppression.many_suppressions import ManySuppressions
from postroom.services.audience.suppression.provider_overview import ProviderOverview
from postroom.services.audience.suppression.suppression_rows import SuppressionRows
from postroom.services.audience.suppression.suppressions import SuppressionService
from postroom.services.audience.targeting.audiences import AudienceService
from postroom.services.audience.targeting.estimates import EstimateService
from postroom.services.audience.targeting.follow_ups import FollowUpService
from postroom.services.audience.targeting.inactive_subscribers import InactiveSubscribers
from postroom.services.audience.targeting.received_messages import ReceivedMessages
from postroom.services.audience.targeting.segments import SegmentService
from postroom.services.events import EventService
from postroom.services.idempotency import IdempotencyService
from postroom.services.messages.ab_test_rows import AbTestRows
from postroom.services.messages.domains.dkim_keys import DkimKeyService, SigningKeys
from postroom.services.messages.drafts.composing import ComposingService
from postroom.services.messages.drafts.message_versions import MessageVersions
from postroom.services.messages.drafts.stored_attachments import AttachedFiles
from postroom.services.messages.drafts.templates import TemplateService
from postroom.services.messages.lifecycle import MessageService
from postroom.services.messages.link_tables import LinkTables
from postroom.services.messages.media.picture_uses import PictureUses
from postroom.services.messages.media.pictures import PictureService
from postroom.services.messages.message_contents import MessageBodies
from postroom.services.messages.message_rows import MessageRows
from postroom.services.messages.message_states import MessageStates
from postroom.services.messages.message_times import MessageTimes
from postroom.services.messages.published_messages import PublishedIndex, PublishingService
from postroom.services.messages.sending.hold_rows import HoldService
from postroom.services.messages.sending.outcomes import OutcomeService
from postroom.services.messages.sending.page_rows import PageRows
from postroom.services.messages.sending.progress import MessageHolds, ProgressService
from postroom.services.messages.sending.provider_rates import ProviderRateService
from postroom.services.messages.sending.retries import RetryService
from postroom.services.messages.sending.warm_ups import WarmUpService
from postroom.services.operations.disk_space import SpaceWaits
from postroom.services.operations.explorer import ExplorerService
from postroom.services.operations.health import HealthService, ProxySightings, StoreHealth
from postroom.services.operations.stored_settings import StoredSettingService
from postroom.services.operations.system_state import SystemState
from postroom.services.queues.apps import AppRegistry
from postroom.services.queues.delivery import QueueService
from postroom.services.queues.hosts import HostStatusService
from postroom.services.queues.queue_access import AccessService
from postroom.services.queues.queue_overview import QueueOverviewService
from postroom.services.stored_secrets import StoredSecrets
from postroom.storage import Store


class Services:
    """The use cases over one store, each built once."""

    def __init__(self, store: Store, keyring: Keyring | None = None, base_url: str = "") -> None:
        keyring = keyring or Keyring(without_key)
        self.store = store
        self.keyring = keyring
        self.secrets = StoredSecrets(store, keyring)
        self.events = EventService(store)
        self.idempotency = IdempotencyService(store)
        self._build_rows(store)
        self._build_lists(store, keyring)
        self._build_targeting(store, keyring)
        self._build_messages(store, base_url)
        self._build_suppression(store)
        self._build_results(store)
        self._build_sending(store)
        self.dkim_keys = DkimKeyService(store, keyring)
        self.signing_keys = SigningKeys(self.dkim_keys)
        self._build_bounces(store, keyring)
        self._build_queues(store, keyring)
        self._build_accounts(store, keyring)
        self._build_operations(store, keyring)

    def _build_rows(self, store: Store) -> None:
        """Build what reads and writes the rows and blobs of one kind for several services."""
        self.message_rows = MessageRows(store)
        self.picture_uses = PictureUses(store)
        self.message_bodies = MessageBodies(store, self.picture_uses)
        self.message_versions = MessageVersions(store, self.message_bodies)
        self.attached_files = AttachedFiles(store)
        self.published = PublishedIndex(store)
        self.ab_test_rows = AbTestRows(store)
        self.pages = PageRows(store)
        self.outcomes = OutcomeService(self.pages)
        self.people = PeopleRows(store)
        self.unsubscribes = Unsubscribes(store)
        self.foreign_ids = ForeignIds(store)
        self.suppression_rows = SuppressionRows(store)
        self.list_grants = ListGrants(store)

    def _build_lists(self, store: Store, keyring: Keyring) -> None:
        self.lists = ListService(
            store,
            self.message_rows,
            self.published,
            self.unsubscribes,
            self.foreign_ids,
            self.list_grants,
        )
        self.logos = LogoService(store, self.lists)
        self.counts = ListCounts(store)
        self.fields = FieldService(store, self.lists)
        self.subscriber_rows = SubscriberRows(
            store, self.lists, self.counts, self.unsubscribes, self.suppression_rows
        )
        limits = SignupLimits(store)
        self.subscriptions = SubscriptionService(
            store,
            self.subscriber_rows,
            self.lists,
            self.counts,
            self.fields,
            limits,
            self.unsubscribes,
        )
        self.preferences = PreferenceService(
            store, self.subscriber_rows, self.fields, limits, keyring, self.unsubscribes
        )
        self.proofs = ProofService(limits, keyring)
        self.welcomes = WelcomeService(store, self.subscriptions)
        self.ledger = ConsentLedger(store)
        self.ip_digests = IpDigests(keyring)
        self.many_suppressions = ManySuppressions(
            store, self.suppression_rows, self.lists, self.subscriber_rows
        )
        self.imports = ImportService(
            store,
            self.lists,
            self.fields,
            self.counts,
            self.events,
            self.suppression_rows,
            self.many_suppressions,
            self.unsubscribes,
            self.foreign_ids,
        )
        self.search = SubscriberSearch(store, self.lists)
        self.growth = GrowthService(store, self.lists)
        self.movements = ListMovements(store)
        self.sizes = ListSizes(store, self.growth, self.counts)

    def _build_targeting(self, store: Store, keyring: Keyring) -> None:
        self.link_tables = LinkTables(store, keyring)
        self.received_messages = ReceivedMessages(
            store, self.message_rows, self.pages, self.outcomes, self.people, self.link_tables
        )
        self.segments = SegmentService(
            store,
            self.lists,
            self.fields,
            self.subscriptions,
            self.message_rows,
            self.received_messages,
        )
        self.field_changes = FieldChanges(
            store, self.fields, self.lists, self.segments, self.message_rows
        )
        self.audiences = AudienceService(store, self.lists, self.fields, self.segments, self.sizes)
        self.list_emails = ListEmailService(self.picture_uses, self.lists, self.audiences)
        self.exports = ExportService(self.lists, self.fields, self.subscriptions, self.segments)

    def _build_messages(self, store: Store, base_url: str) -> None:
        self.holds = HoldService(store, self.events)
        self.message_states = MessageStates(
            store, self.message_rows, self.pages, self.events, self.holds, self.published
        )
        self.messages = MessageService(
            store,
            self.message_rows,
            self.message_states,
            self.message_bodies,
            self.attached_files,
            self.message_versions,
            self.published,
            self.audiences,
        )
        self.templates = TemplateService(store, self.picture_uses)
        self.publishing = PublishingService(
            self.message_rows, self.message_bodies, self.published, base_url
        )
        self.composing = ComposingService(
            store,
            self.message_rows,
            self.messages,
            self.message_states,
            self.message_bodies,
            self.attached_files,
            self.message_versions,
            self.ab_test_rows,
            self.templates,
            self.publishing,
            self.audiences,
            base_url,
        )
        self.pictures = PictureService(
            store,
            self.picture_uses,
            self.message_rows,
            self.message_bodies,
            self.message_versions,
            self.templates,
        )
        self.times = MessageTimes(store, self.messages)

    def _build_suppression(self, store: Store) -> None:
        self.suppressions = SuppressionService(
            store,
            self.suppression_rows,
            self.many_suppressions,
            self.lists,
            self.subscriptions,
            self.messages,
            self.times,
            self.outcomes,
        )
        self.delivery_figures = DeliveryFigureService(
            store, self.suppressions.bounces, self.outcomes, self.pages
        )

    def _build_results(self, store: Store) -> None:
        self.message_unsubscribes = MessageUnsubscribes(
            store, self.subscriptions, self.messages, self.outcomes
        )
        self.engagement = EngagementRows(store)
        self.personal_hits = PersonalHits(self.people, self.subscriber_rows, self.link_tables)
        self.results = ResultService(
            self.messages,
            self.delivery_figures,
            self.message_unsubscribes,
            self.engagement,
            self.people,
            self.link_tables,
            self.pages,
        )
        self.segment_results = SegmentResults(
            store, self.segments, self.fields, self.suppressions.bounces
        )
        self.results_over_time = OverTimeService(self.results, self.movements)
        self.tracing = TraceService(
            self.lists,
            self.subscriptions,
            self.times,
            self.outcomes,
            self.ledger,
            self.suppressions,
            self.personal_hits,
            self.foreign_ids,
            self.unsubscribes,
        )
        self.ab_tests = AbTestService(
            self.ab_test_rows,
            self.messages,
            self.message_states,
            self.composing,
            self.outcomes,
            self.results,
            self.events,
        )
        self.personal_data = PersonalDataService(
            store,
            self.lists,
            self.subscriber_rows,
            self.tracing,
            self.times,
            self.pages,
            self.outcomes,
            self.ledger,
            self.suppressions,
            self.personal_hits,
            self.ab_tests,
            self.unsubscribes,
            self.foreign_ids,
            ImportFiles(store),
        )

    def _build_sending(self, store: Store) -> None:
        self.in_doubt = InDoubtService(store, self.pages, self.outcomes)
        self.progress = ProgressService(self.outcomes)
        self.retries = RetryService(
            store, self.messages, self.message_states, self.pages, self.outcomes
        )
        self.follow_ups = FollowUpService(
            self.messages, self.segments, self.composing, self.retries
        )
        self.inactive = InactiveSubscribers(
            self.lists, self.subscriptions, self.segments, self.messages, self.composing
        )
        self.estimates = EstimateService(self.sizes, self.audiences, self.times)
        self.provider_rates = ProviderRateService(store)
        self.warm_ups = WarmUpService(store)
        self.provider_overview = ProviderOverview(
            store, self.provider_rates, self.holds, self.delivery_figures
        )
        self.message_holds = MessageHolds(self.holds, self.messages, self.outcomes)

    def _build_bounces(self, store: Store, keyring: Keyring) -> None:
        self.bounce_intake = BounceIntake(store)
        self.identification = BounceIdentification(
            self.messages, self.subscriptions, SentAddresses(self.pages), keyring
        )
        self.bounces = BounceProcessing(
            self.bounce_intake, self.identification, self.events, self.suppressions.record
        )

    def _build_queues(self, store: Store, keyring: Keyring) -> None:
        self.hosts = HostStatusService(store)
        self.apps = AppRegistry(store, self.hosts, keyring)
        self.access = AccessService(store, self.hosts, self.apps)
        self.queues = QueueService(store, self.hosts, self.access, self.events)
        self.queue_overview = QueueOverviewService(store, self.apps, self.queues)

    def _build_accounts(self, store: Store, keyring: Keyring) -> None:
        self.keys = ApiKeyService(store, self.list_grants)
        self.users = UserService(store, self.events, keyring)
        self.groups = GroupService(store, self.users, self.list_grants)
        self.list_access = ListAccessService(self.list_grants, self.groups, self.users)
        self.sessions = SessionService(store, self.users)
        self.access_links = AccessLinks(store, self.users)
        self.user_removal = UserRemoval(
            self.users, self.sessions, self.access_links, self.list_access
        )
        self.audit = AuditService(store)

    def _build_operations(self, store: Store, keyring: Keyring) -> None:
        self.stored_settings = StoredSettingService(store, keyring)
        self.health = HealthService(self.hosts, self.queue_overview)
        self.store_health = StoreHealth(store)
        self.space_waits = SpaceWaits(store)
        self.system_state = SystemState(self.health, self.hosts, self.holds, self.space_waits)
        self.explorer = ExplorerService(store)
        self.proxy_sightings = ProxySightings(store)
