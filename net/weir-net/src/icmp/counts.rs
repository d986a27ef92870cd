//! Counts of the datagrams that the engine took, by result.

/// Declares the structure and the list of its names in one table. Each count's documentation begins
/// with its name.
macro_rules! counts {
    ($($(#[$doc:meta])* $field:ident: $name:literal,)*) => {
        /// Counts of the datagrams that the engine took, by result.
        ///
        /// Each datagram is counted in `taken`, and in exactly one of the counts up to errors sent.
        /// `ggp_updates_sent` and `ggp_updates_rate` count updates that are sent in addition. A
        /// datagram that could not be delivered is in exactly one of errors sent and errors not
        /// sent.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
        pub struct IcmpCounts {
            $(
                #[doc = $name]
                #[doc = ""]
                $(#[$doc])*
                pub $field: u64,
            )*
        }

        impl IcmpCounts {
            /// Returns each count with its name for programs and its label for people, in reading
            /// order.
            pub fn each(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> + use<> {
                [$((stringify!($field), $name, self.$field)),*].into_iter()
            }
        }
    };
}

counts! {
    /// Datagrams taken, including those dropped later.
    taken: "datagrams received",
    /// The protocol is neither ICMP nor GGP, or is switched off.
    dropped_protocol: "dropped: other protocol",
    /// Fragments, which only reassembly handles.
    dropped_fragment: "dropped: fragment",
    dropped_broadcast: "dropped: sent to a broadcast or multicast address",
    dropped_not_ours: "dropped: not sent to us",
    /// From an address that is not that of one host, or is ours.
    dropped_source: "dropped: source is not a single host",
    /// Shorter than their type, or quoting something that is not a datagram.
    dropped_malformed: "dropped: malformed",
    dropped_checksum: "dropped: wrong checksum",
    /// The type or code has no meaning here.
    dropped_unknown: "dropped: unknown type or code",
    /// Requests that the settings leave unanswered.
    dropped_off: "dropped: answering is switched off",
    dropped_rate: "dropped: too many requests",
    echoes_answered: "echo requests answered",
    timestamps_answered: "timestamp requests answered",
    information_answered: "information requests answered",
    /// Echo and timestamp replies, which concern the process that asked.
    stray_replies: "stray replies",
    /// Source quenches, which RFC 6633 deprecates.
    source_quenches_ignored: "source quenches ignored",
    /// Redirects that were passed on.
    redirects_taken: "redirects accepted",
    /// Redirects to the gateway already in use.
    redirects_known: "redirects with nothing new",
    /// Redirects for one type of service, which this host does not distinguish.
    redirects_service: "redirects for a type of service",
    redirects_not_ours: "redirects refused: about no datagram of ours",
    /// Redirects to an address that is not a gateway on our net.
    redirects_gateway: "redirects refused: gateway is not a neighbour",
    /// Redirects from a host that is not the gateway in use.
    redirects_sender: "redirects refused: not from the gateway in use",
    /// Errors that were passed on as a notice.
    notices_given: "errors passed on",
    errors_not_ours: "errors about no datagram of ours",
    /// Errors about replies sent here, or about fragments, which no process waits for.
    errors_nobodys: "errors that concern no station",
    ggp_echoes_answered: "GGP echoes answered",
    ggp_updates_accepted: "GGP updates accepted",
    ggp_updates_refused: "GGP updates refused as old",
    /// GGP acknowledgements of our update, and negative ones that changed nothing.
    ggp_acknowledgements: "GGP acknowledgements",
    /// GGP negative acknowledgements after which our sequence advanced.
    ggp_resynchronised: "GGP negative acknowledgements followed",
    ggp_ignored: "GGP messages ignored",
    /// GGP updates sent to gateways that asked for one.
    ggp_updates_sent: "GGP updates sent",
    /// GGP updates asked for beyond the rate of errors.
    ggp_updates_rate: "GGP updates not sent: too many",
    sent_protocol: "errors sent: protocol unreachable",
    sent_port: "errors sent: port unreachable",
    sent_source_route: "errors sent: source route failed",
    sent_reassembly: "errors sent: reassembly time exceeded",
    sent_parameter: "errors sent: parameter problem",
    /// Errors not sent: the bytes are not a datagram, or too little of one.
    unsent_malformed: "errors not sent: malformed datagram",
    /// Errors not sent: about an ICMP error, or an ICMP message that may be one.
    unsent_error: "errors not sent: about an error",
    unsent_fragment: "errors not sent: about a later fragment",
    unsent_broadcast: "errors not sent: about a broadcast or multicast datagram",
    unsent_not_ours: "errors not sent: about a datagram not sent to us",
    unsent_source: "errors not sent: about a datagram whose source is not a single host",
    /// The limit for all destinations together.
    unsent_rate: "errors not sent: too many",
    unsent_rate_one: "errors not sent: too many to one host",
}
