//! Flow control by credits: MFC for multicasts, UFC for unicasts.
