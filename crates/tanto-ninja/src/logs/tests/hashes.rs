//! Command hashes written by ninja 1.11.1 and ninja 1.13.2.

use crate::logs::BuildLog;

/// The command of `n` bytes in the manifest that was built.
fn command(n: usize) -> Vec<u8> {
    match n {
        1 => b":".to_vec(),
        2 => b":;".to_vec(),
        _ => b": ".iter().copied().chain((0..n as u8 - 2).map(|i| b'a' + i % 26)).collect(),
    }
}

/// Length, hash of 1.11.1, hash of 1.13.2.
const WRITTEN: &[(usize, u64, u64)] = &[
    (1, 0x2e49_d247_7c67_37f0, 0xa2da_2232_1247_804b),
    (2, 0x925d_dfd3_c4b1_02b0, 0x8f67_c90c_b369_2802),
    (3, 0xf2d1_360f_1675_bfb3, 0xbae9_8016_6742_c4ce),
    (4, 0x0ec0_1832_4a11_ce21, 0x97e0_d095_040a_ee0d),
    (5, 0xa892_6c8c_f2d9_6e87, 0x4313_b7d8_083e_cc54),
    (7, 0x50c2_e91e_d79a_6745, 0x6aad_1433_7fb3_8b85),
    (8, 0x6159_3a6f_e38b_a7e8, 0x8f50_7c8a_c267_7406),
    (9, 0x75d8_e4b2_8913_5098, 0xa6e8_9124_06dd_ebf5),
    (12, 0x3db7_64d9_c307_9ed5, 0x8af4_4588_d3b2_cb47),
    (15, 0x4a46_ffc0_738c_2739, 0x0651_a47e_738a_743f),
    (16, 0x6cf4_06fe_306b_52f8, 0x8732_a2ee_5bb4_306c),
    (17, 0xc7c6_fa71_0cc5_a22e, 0x4fa7_e778_2158_064d),
    (23, 0x5122_d153_5b9f_192b, 0x4166_f364_626d_940c),
    (24, 0x64df_1d22_5dfd_dfb9, 0xfa1e_d62e_c890_97b1),
    (31, 0x8736_de7b_97c2_463c, 0x5661_909b_0306_feb5),
    (32, 0x787c_7a2a_f132_dc78, 0x6991_ac35_9b2c_0425),
    (33, 0x68b8_d98e_c65a_c3b3, 0xae8c_f630_7e8e_fe99),
    (47, 0x1f13_38ff_fac0_8f4f, 0xa1f1_9eed_35ed_99b2),
    (48, 0x499a_21bb_d0c6_aacb, 0x8761_d8c1_b7c7_44ea),
    (49, 0x324f_6eef_533b_f4c0, 0x8d10_6f58_2097_a89b),
    (63, 0x5413_972d_dfd9_dbbd, 0x63fc_9a3d_5954_aacf),
    (64, 0x0ac9_1c7f_9832_c8ec, 0x339d_d5ff_8146_76f0),
    (65, 0x1bd1_aef8_9211_8113, 0x3769_ce04_8eeb_b31f),
    (79, 0x7cac_1351_8130_6735, 0xf031_4db0_75a6_d236),
    (80, 0xb66e_9175_0fe0_45e8, 0x1132_eeae_b8db_695d),
    (81, 0x88e7_bc2f_5fce_fab1, 0xd206_09cc_cfe1_b92d),
    (95, 0x1bd4_7ef5_069c_a8f1, 0x830c_9222_500f_17da),
    (96, 0xab9e_ca1d_c488_5902, 0xe4cf_0f4f_0572_13c5),
    (97, 0x0663_b1e1_9e57_3425, 0xf928_c34f_2467_462d),
    (143, 0xd7fa_a23f_0f13_0f92, 0x1364_932f_0f63_2a68),
    (144, 0xf9a6_46b8_a905_40b2, 0x8964_7cb0_85bb_e751),
    (145, 0x8fbd_005f_c8e3_cd10, 0x6c2e_a425_0588_77a7),
    (200, 0x26ea_4858_8574_91f1, 0x3928_4aa4_bf75_a499),
];

#[test]
fn command_hashes_match_ninja() {
    let (v5, v6, v7) = (BuildLog::in_memory(5), BuildLog::in_memory(6), BuildLog::in_memory(7));
    for &(length, murmur64a, rapidhash) in WRITTEN {
        let command = command(length);
        assert_eq!(command.len(), length);
        assert_eq!(v5.hash_command(&command), murmur64a, "length {length}");
        assert_eq!(v6.hash_command(&command), murmur64a, "length {length}");
        assert_eq!(v7.hash_command(&command), rapidhash, "length {length}");
    }
}
