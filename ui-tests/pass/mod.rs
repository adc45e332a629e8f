//! Legal programs: a twin of each test in `ui-tests`, as similar as the rule allows.

#![allow(dead_code)] // compiled, never called

mod bounded {
    mod no_attribute_from_a_bare_integer;
    mod no_unchecked_constructor;
}

mod cm {
    mod a_migrated_id_is_elsewhere;
    mod a_request_is_answered_once;
    mod a_send_only_member_receives_nothing;
    mod a_step_is_made_once;
    mod an_endpoint_on_a_channel_does_not_wait;
    mod an_id_has_one_queue_pair;
    mod every_way_to_connect_needs_the_route;
    mod no_accept_without_a_queue_pair;
    mod no_address_for_an_id_that_has_one;
    mod no_completion_calls_on_shared_queues;
    mod no_confirmation_of_what_was_not_accepted;
    mod no_connect_before_the_route;
    mod no_device_before_the_address;
    mod no_end_of_what_is_not_connected;
    mod no_get_request_on_a_channel;
    mod no_group_without_a_device;
    mod no_leaving_what_was_not_joined;
    mod no_listening_without_an_address;
    mod no_lookup_before_the_route;
    mod no_options_after_the_route;
    mod no_options_of_a_peer_not_heard;
    mod no_post_without_a_queue_pair;
    mod no_queue_pair_without_a_device;
    mod no_receive_after_disconnect;
    mod no_region_without_a_device;
    mod no_request_without_listening;
    mod no_route_before_the_address;
    mod no_send_before_connected;
    mod private_data_fits_the_message;
    mod the_port_space_fixes_the_transport;
}

mod flags {
    mod every_way_to_post_asks_for_the_fence;
    mod no_bind_without_a_completion;
    mod no_fence_on_uc;
    mod no_fence_on_ud;
    mod no_inline_cmp_and_swp;
    mod no_inline_fetch_and_add;
    mod no_inline_rdma_read;
    mod no_signaled_in_a_list_where_all_are;
    mod no_signaled_where_all_are;
    mod no_solicited_cmp_and_swp;
    mod no_solicited_fetch_and_add;
    mod no_solicited_rdma_read;
    mod no_solicited_rdma_write;
}

mod forging {
    mod a_call_of_ones_own;
    mod a_context_keeps_its_type;
    mod a_context_stays_on_its_thread;
    mod a_depth_of_ones_own;
    mod a_pool_of_another_context;
    mod a_receive_of_ones_own;
    mod a_send_of_ones_own;
    mod a_shared_receive_of_ones_own;
    mod a_slot_of_ones_own;
    mod a_transition_of_a_target_of_ones_own;
    mod a_transition_of_ones_own;
    mod a_way_to_create_of_ones_own;
    mod a_work_request_of_ones_own;
    mod an_entry_of_ones_own;
    mod data_of_ones_own;
    mod flags_of_ones_own;
    mod no_ability_is_made_up;
    mod no_argument_by_hand;
    mod no_comp_vector_from_a_number;
    mod no_completion_leaves_a_drain;
    mod no_descriptor_is_a_file;
    mod no_parts_of_an_argument;
    mod no_roce_v2_source_from_any_entry;
    mod no_state_by_exchange;
    mod no_step_of_a_completion_by_hand;
    mod sources_of_memory_that_can_change;
}

mod generic {
    mod no_data_without_a_bound;
    mod no_elements_that_the_profile_may_lack;
    mod no_inline_bytes_that_the_profile_may_lack;
    mod no_post_of_a_buffer_itself;
    mod no_post_without_a_bound;
    mod no_profile_that_is_too_small;
    mod no_queue_pair_without_a_bound;
    mod no_rule_is_broken_behind_a_bound;
}

mod initiator {
    mod every_way_to_post_asks_for_reads;
    mod no_cmp_and_swp_without_reads;
    mod no_fetch_and_add_without_reads;
    mod no_initiator_depth_without_reads;
    mod no_rdma_read_without_reads;
}

mod lanes {
    mod a_lane_is_made_on_its_thread;
    mod a_queue_pair_of_a_lane_completes_into_a_lane;
    mod a_queue_pair_of_a_lane_has_such_a_profile;
    mod a_queue_pair_of_a_lane_stays_on_its_thread;
    mod a_queue_pair_of_any_thread_completes_into_no_lane;
    mod a_shared_receive_queue_of_a_lane_serves_its_lane;
}

mod limits {
    mod a_list_has_room_for_its_buffers;
    mod a_list_of_pieces_has_at_most_max_send_sge;
    mod a_list_of_receives_has_room_for_its_buffers;
    mod a_receive_has_at_most_max_recv_sge_buffers;
    mod a_send_has_at_most_max_send_sge_buffers;
    mod a_shared_receive_has_at_most_its_queues_buffers;
    mod an_inline_list_has_at_most_max_send_sge_slices;
    mod every_way_to_post_asks_for_max_send_sge;
    mod inline_data_fits_the_capacity;
    mod no_buffer_where_the_profile_allows_none;
    mod slots_have_an_element_for_inline_data;
}

mod r#macro {
    mod a_list_has_at_most_128_work_requests;
    mod a_list_is_for_a_queue;
    mod a_list_is_in_brackets;
    mod a_profile_has_known_keys;
    mod a_queue_comes_before_the_list;
    mod a_receive_is_no_send;
    mod an_unsettled_list_is_noticed;
    mod no_list_is_begun_by_another;
    mod no_list_is_empty;
    mod no_list_is_unsignaled_where_all_are_signaled;
    mod no_list_lends_its_unsafe;
    mod no_other_crate_is_the_one_of_the_list;
    mod no_receive_is_unsignaled;
    mod no_unsafe_function_of_another_crate_is_called;
    mod nothing_but_unsignaled_follows_a_list;
    mod the_error_is_at_its_element;
    mod unsafe_code_may_be_forbidden;
}

mod memory {
    mod a_bind_needs_an_entry_for_its_window;
    mod a_bind_of_type_1_is_no_list;
    mod a_cell_ends_before_its_region;
    mod a_completion_proves_one_end;
    mod a_flush_needs_its_right;
    mod a_key_is_ended_once;
    mod a_piece_ends_before_its_region;
    mod a_queue_gives_back_what_it_was_made_for;
    mod a_region_of_no_memory_opens_nothing;
    mod a_window_is_used_when_its_bind_is_known;
    mod an_atomic_needs_an_aligned_cell;
    mod an_atomic_returns_into_one_buffer;
    mod an_atomic_write_needs_a_cell_to_write;
    mod contexts_are_made_once_of_an_index;
    mod every_way_to_use_memory_asks_what_it_bears;
    mod no_atomic_into_read_only_memory;
    mod no_atomic_without_remote_atomic;
    mod no_bytes_of_a_dma_buf;
    mod no_bytes_of_opaque_memory;
    mod no_cell_of_a_local_region;
    mod no_device_memory_without_proof;
    mod no_flag_in_relaxed_memory;
    mod no_key_with_rights_that_the_region_lacks;
    mod no_local_inv_of_a_lent_window;
    mod no_memory_on_demand_but_by_its_proof;
    mod no_opaque_region_without_unsafe;
    mod no_peer_in_an_implicit_region;
    mod no_piece_of_memory_on_demand;
    mod no_pool_in_shared_memory;
    mod no_promise_that_memory_never_changes;
    mod no_rdma_read_from_a_write_address;
    mod no_rdma_read_without_remote_read;
    mod no_rdma_write_to_a_read_address;
    mod no_rdma_write_without_remote_write;
    mod no_region_of_another_memory;
    mod no_region_on_demand_without_its_proof;
    mod no_rkey_for_a_local_region;
    mod no_send_of_a_borrowed_range;
    mod no_send_of_unregistered_memory;
    mod no_share_of_what_can_change;
    mod no_slice_of_an_open_region;
    mod no_slice_of_shared_memory;
    mod no_unregistered_memory_with_any_opcode;
    mod no_use_of_a_region_that_failed_to_change;
    mod no_window_over_a_region_without_mw_bind;
    mod no_window_with_rights_that_memory_lacks;
    mod no_writable_region_of_read_only_memory;
    mod not_every_type_is_memory;
    mod read_only_memory_is_not_written;
    mod windows_are_of_two_types;
}

mod mistakes {
    mod a_bare_number_as_a_psn;
    mod a_buffer_after_its_post;
    mod a_buffer_is_posted_itself;
    mod a_builder_without_create;
    mod a_completion_goes_to_a_thread;
    mod a_completion_over_the_next_poll;
    mod a_completion_queue_of_another_entry;
    mod a_context_of_another_type;
    mod a_datagram_without_a_destination;
    mod a_generic_function_without_bounds;
    mod a_lane_goes_to_a_thread;
    mod a_method_of_self_in_the_poll_loop;
    mod a_poll_without_a_question_mark;
    mod a_profile_of_any_kind;
    mod a_queue_of_lists_without_its_profile;
    mod a_queue_pair_type_without_its_state;
    mod a_queue_pair_without_mut;
    mod a_read_into_bytes;
    mod a_read_on_uc;
    mod a_read_without_the_right;
    mod a_receive_before_init;
    mod a_receive_beside_the_shared_queue;
    mod a_receive_is_posted_as_a_send;
    mod a_reference_to_a_buffer_is_sent;
    mod a_region_is_sent;
    mod a_send_before_rts;
    mod a_state_is_skipped;
    mod a_vec_is_sent;
    mod a_vec_receives;
    mod a_write_to_a_slice;
    mod an_atomic_on_a_slice;
    mod an_option_of_a_buffer_is_sent;
    mod an_unsignaled_send_where_all_are_signaled;
    mod bytes_are_sent;
    mod complete_with_a_question_mark;
    mod drain_in_rts;
    mod inline_data_longer_than_the_profile;
    mod the_queue_pair_of_before_a_transition;
    mod two_buffers_where_one_fits;
}

mod opcode {
    mod a_context_is_for_what_has_none;
    mod a_number_is_of_what_has_no_buffer;
    mod a_prepared_work_request_has_the_same_bounds;
    mod a_prepared_work_request_needs_its_data;
    mod a_queue_pair_is_created_for_flush;
    mod every_way_to_post_asks_for_the_opcode;
    mod every_way_to_post_asks_what_it_was_created_for;
    mod uc_carries_no_bind_mw;
    mod uc_carries_no_cmp_and_swp;
    mod uc_carries_no_fetch_and_add;
    mod uc_carries_no_rdma_read;
    mod uc_carries_no_send_with_inv;
    mod ud_carries_no_cmp_and_swp;
    mod ud_carries_no_fetch_and_add;
    mod ud_carries_no_rdma_read;
    mod ud_carries_no_rdma_write;
    mod ud_carries_no_rdma_write_with_imm;
}

mod ownership {
    mod a_builder_that_creates_nothing;
    mod a_completion_is_used_once;
    mod a_completion_queue_is_polled_by_one_thread;
    mod a_completion_stays_on_its_thread;
    mod a_failed_completion_has_no_opcode;
    mod a_joined_buffer_is_gone;
    mod a_posted_buffer_is_gone;
    mod a_queue_pair_is_destroyed_once;
    mod a_queue_pair_is_not_cloned;
    mod inline_data_lives_until_the_post;
    mod inline_data_of_a_chain_is_not_changed_before_the_post;
    mod no_bare_wait_for_an_event;
    mod no_buffer_is_copied;
    mod no_buffer_is_posted_twice;
    mod no_completion_across_the_next_poll;
    mod no_completion_beyond_its_queue;
    mod no_completion_is_copied;
    mod no_detached_completion_is_copied;
    mod no_post_inside_a_list;
    mod no_post_while_a_list_is_open;
    mod no_post_while_released_buffers_are_read;
    mod no_queue_ends_inside_its_list;
    mod no_resize_while_a_completion_is_held;
    mod registered_memory_is_given_away;
    mod what_stays_on_its_thread_keeps_its_queue_pair_there;
}

mod polling {
    mod each_field_is_read_if_it_was_asked_for;
    mod fields_are_asked_for_in_order;
    mod no_clock_without_proof;
    mod no_field_across_the_next_poll;
    mod no_moderation_by_a_number_alone;
    mod no_vector_without_a_channel;
    mod only_fields_that_were_asked_for_are_read;
    mod options_are_chosen_once;
    mod settling_asks_for_what_it_posts;
}

mod raw {
    mod a_chain_without_checks_is_unsafe;
    mod a_raw_shared_receive_queue_serves_raw_queue_pairs;
    mod an_unchecked_list_asks_for_all_that_types_hold;
    mod an_unchecked_post_asks_for_room_and_a_queue;
    mod an_unchecked_post_asks_for_the_state;
    mod an_unchecked_send_asks_for_all_that_types_hold;
    mod an_unchecked_write_is_asked_for;
    mod no_extended_posting_on_a_foreign_queue_pair;
    mod no_foreign_queue_pair_on_a_shared_receive_queue;
    mod no_owned_buffer_on_a_raw_queue_pair;
    mod no_raw_completion_queue_for_a_safe_queue_pair;
    mod no_safe_list_of_receives_on_a_raw_queue_pair;
    mod no_safe_post_on_a_raw_queue_pair;
    mod no_safe_unsignaled_list_on_a_raw_queue_pair;
    mod no_unchecked_post_without_unsafe;
}

mod receive {
    mod a_shared_receive_at_a_piece_has_a_buffer;
    mod a_shared_receive_queue_has_entries_of_the_profile;
    mod a_shared_receive_queue_is_posted_to_by_its_own_call;
    mod a_shared_receive_queue_serves_one_transport;
    mod no_empty_receive_on_a_shared_receive_queue;
    mod no_list_with_read_only_memory_is_filled;
    mod no_post_recv_with_a_shared_receive_queue;
    mod no_rdma_read_into_read_only_memory;
    mod no_receive_into_an_open_region;
    mod no_receive_into_read_only_memory;
    mod no_receive_into_unregistered_memory;
    mod no_shared_receive_queue_for_uc;
    mod the_profile_says_where_receives_come_from;
}

mod srd {
    mod a_prepared_write_is_asked_for;
    mod a_program_for_rc_shows_where_it_relies_on_order;
    mod a_send_has_one_element;
    mod a_write_is_asked_for;
    mod every_completion_is_of_one;
    mod every_work_request_names_a_destination;
    mod it_is_posted_in_sessions;
    mod no_shared_receive_queue;
    mod no_write_in_a_list_of_any_length;
    mod only_writes_follow_a_write;
}

mod state {
    mod a_moved_queue_pair_is_gone;
    mod a_path_is_armed_by_the_device;
    mod attributes_are_those_of_the_transport;
    mod no_alternate_path_from_sqe;
    mod no_alternate_path_on_ud;
    mod no_error_from_reset;
    mod no_options_after_rtr;
    mod no_path_mtu_on_ud;
    mod no_qkey_on_rc;
    mod no_rate_before_rts;
    mod no_read_depth_without_reads;
    mod no_reads_without_a_read_depth;
    mod no_receive_in_error;
    mod no_receive_in_reset;
    mod no_required_attribute_is_left_out;
    mod no_return_while_draining;
    mod no_send_before_rts;
    mod no_sqe_on_rc;
    mod no_state_is_forged;
    mod no_transition_skips_a_state;
}

mod ud {
    mod an_address_handle_given_away_is_not_destroyed;
    mod every_send_names_a_destination;
    mod every_way_to_post_asks_for_the_destination;
    mod no_address_handle_on_rc;
    mod no_destination_on_rc;
    mod no_destination_on_uc;
    mod no_flags_on_rc;
}

mod xrc {
    mod a_domain_needs_the_ability;
    mod a_target_has_transitions_of_its_own;
    mod a_target_posts_nothing;
    mod an_initiator_receives_nothing;
    mod every_work_request_names_a_queue;
    mod no_failure_of_a_target_in_reset;
    mod no_queue_of_xrc_without_its_domain;
    mod no_shared_receive_queue_is_named_on_rc;
}
