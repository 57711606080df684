"""Every service, built once: the only place where they are put together."""

from __future__ import annotations

from postroom.encryption import Keyring, without_key
from postroom.sender.doubts import DoubtService
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
from postroom.services.audience.signup.foreign_ids import ForeignIds
from postroom.services.audience.signup.preferences import PreferenceService
from postroom.services.audience.signup.proofs import ProofService
from postroom.services.audience.signup.signup_limits import SignupLimits
from postroom.services.audience.signup.subscriptions import SubscriptionService
from postroom.services.audience.signup.welcomes import WelcomeService
from postroom.services.audience.subscriber_search import SubscriberSearch
from postroom.services.audience.suppression.delivery_figures import DeliveryFigureService
from postroom.services.audience.suppression.many_suppressions import ManySuppressions
from postroom.services.audience.suppression.provider_overview import ProviderOverview
from postroom.services.audience.suppression.suppressions import SuppressionService
from postroom.services.audience.targeting.audiences import AudienceService
from postroom.services.audience.targeting.estimates import EstimateService
from postroom.services.audience.targeting.follow_ups import FollowUpService
from postroom.services.audience.targeting.segments import SegmentService
from postroom.services.events import EventService
from postroom.services.idempotency import IdempotencyService
from postroom.services.messages.ab_test_rows import AbTestRows
from postroom.services.messages.domains.dkim_keys import DkimKeyService, SigningKeys
from postroom.services.messages.drafts.composing import ComposingService
from postroom.services.messages.drafts.stored_attachments import AttachedFiles
from postroom.services.messages.drafts.templates import TemplateService
from postroom.services.messages.lifecycle import MessageService
from postroom.services.messages.link_tables import LinkTables
from postroom.services.messages.media.pictures import PictureService
from postroom.services.messages.message_rows import MessageRows
from postroom.services.messages.message_times import MessageTimes
from postroom.services.messages.published_messages import PublishingService
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
        self.message_rows = MessageRows(store)
        self._build_audience(store, keyring)
        self._build_messages(store, base_url)
        self.dkim_keys = DkimKeyService(store, keyring)
        self.signing_keys = SigningKeys(self.dkim_keys)
        self._build_bounces(store, keyring)
        self._build_queues(store, keyring)
        self._build_accounts(store, keyring)
        self._build_operations(store, keyring)

    def _build_audience(self, store: Store, keyring: Keyring) -> None:
        self.lists = ListService(store, self.message_rows)
        self.counts = ListCounts(store)
        self.fields = FieldService(store, self.lists)
        limits = SignupLimits(store)
        self.subscriptions = SubscriptionService(
            store, self.lists, self.counts, self.fields, limits
        )
        self.preferences = PreferenceService(
            store, self.subscriptions.rows, self.fields, limits, keyring
        )
        self.proofs = ProofService(limits, keyring)
        self.ledger = ConsentLedger(store)
        self.ip_digests = IpDigests(keyring)
        self.link_tables = LinkTables(store, keyring)
        self.segments = SegmentService(
            store,
            self.lists,
            self.fields,
            self.subscriptions,
            self.message_rows,
            self.link_tables,
        )
        self.field_changes = FieldChanges(
            store, self.fields, self.lists, self.segments, self.message_rows
        )
        self.growth = GrowthService(store, self.lists)
        self.movements = ListMovements(store)
        self.sizes = ListSizes(store, self.growth, self.counts)
        self.audiences = AudienceService(store, self.lists, self.fields, self.segments, self.sizes)
        self.list_emails = ListEmailService(store, self.lists, self.audiences)
        self.welcomes = WelcomeService(store, self.subscriptions)
        self.logos = LogoService(store, self.lists)
        self.foreign_ids = ForeignIds(store)
        self.imports = ImportService(
            store,
            self.lists,
            self.fields,
            self.counts,
            self.events,
            ManySuppressions(store, self.lists, self.subscriptions.rows),
        )
        self.exports = ExportService(self.lists, self.fields, self.subscriptions, self.segments)
        self.search = SubscriberSearch(store, self.lists)

    def _build_messages(self, store: Store, base_url: str) -> None:
        self.holds = HoldService(store, self.events)
        self.messages = MessageService(
            store, self.message_rows, self.events, self.holds, self.audiences
        )
        self.templates = TemplateService(store)
        self.attached_files = AttachedFiles(store)
        self.publishing = PublishingService(store, self.message_rows, base_url)
        self.composing = ComposingService(
            store,
            self.message_rows,
            self.messages,
            self.templates,
            self.publishing,
            self.audiences,
            base_url,
        )
        self.pictures = PictureService(store, self.message_rows, self.templates)
        self.pages = PageRows(store)
        self.outcomes = OutcomeService(self.pages)
        self.times = MessageTimes(store, self.messages)
        self.suppressions = SuppressionService(
            store, self.lists, self.subscriptions, self.messages, self.times, self.outcomes
        )
        self.delivery_figures = DeliveryFigureService(
            store, self.suppressions.bounces, self.outcomes, self.pages
        )
        self.message_unsubscribes = MessageUnsubscribes(
            store, self.subscriptions, self.messages, self.outcomes
        )
        self.engagement = EngagementRows(store)
        people = PeopleRows(store)
        self.personal_hits = PersonalHits(people, self.subscriptions.rows, self.link_tables)
        self.results = ResultService(
            self.messages,
            self.delivery_figures,
            self.message_unsubscribes,
            self.engagement,
            people,
            self.link_tables,
            self.pages,
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
        )
        self.personal_data = PersonalDataService(
            store,
            self.lists,
            self.subscriptions.rows,
            self.tracing,
            self.times,
            self.pages,
            self.outcomes,
            self.ledger,
            self.suppressions,
            self.personal_hits,
        )
        self.doubts = DoubtService(store, self.pages, self.outcomes)
        self.progress = ProgressService(self.outcomes)
        self.retries = RetryService(store, self.messages, self.pages, self.outcomes)
        self.ab_tests = AbTestService(
            AbTestRows(store),
            self.messages,
            self.composing,
            self.outcomes,
            self.results,
            self.events,
        )
        self.follow_ups = FollowUpService(
            self.messages, self.segments, self.composing, self.retries
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
        self.keys = ApiKeyService(store)
        self.users = UserService(store, self.events, keyring)
        self.list_grants = ListGrants(store)
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
