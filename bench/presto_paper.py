# SPDX-License-Identifier: Apache-2.0
"""What the study published, for the columns beside ours: "Where Is My
Training Bottleneck? Hidden Trade-Offs in Deep Learning Preprocessing
Pipelines" (SIGMOD'22), its text and its public repository. 8 virtual CPUs
(2.4 GHz), 80 GB of memory, TensorFlow 2.4, Ceph on hard disks behind 10 Gb/s.
Facts only; None is what it does not state as a number."""

MEMORY = 80e9           # of their machine

# Table 2: samples, GB, MB of a sample, format.
SETS = {
    "cv": (1_300_000, 146.90, 0.1147, "JPG"),
    "cv2-jpg": (4890, 2.54, 0.5203, "JPG"),
    "cv2-png": (4890, 85.17, 17.4176, "PNG"),
    "nlp": (181_000, 7.71, 0.0427, "TXT"),
    "nilm": (268_000, 39.56, 0.1477, "HDF5"),
    "mp3": (13_000, 0.25, 0.0197, "MP3"),
    "flac": (29_000, 6.61, 0.2319, "FLAC"),
}

# Figures 6 and 8: samples/s of the first and of the second epoch.
RATES = {
    "cv": {"unprocessed": (107, 126), "concatenated": (962, 957),
           "decoded": (747, 753), "resized": (1790, 1808),
           "pixel-centered": (577, 581)},
    "cv2-jpg": {"unprocessed": (88, 302), "concatenated": (289, 309),
                "decoded": (64, 198), "resized": (1571, 2542),
                "pixel-centered": (643, 2045)},
    "cv2-png": {"unprocessed": (15, 18), "concatenated": (22, 22),
                "decoded": (73, 209), "resized": (1787, 3286),
                "pixel-centered": (631, 2201)},
    "nlp": {"unprocessed": (6, 6), "concatenated": (6, 6),
            "decoded": (251, 252), "bpe-encoded": (1727, 1765),
            "embedded": (131, 138)},
    "nilm": {"unprocessed": (43, None), "decoded": (55, None),
             "aggregated": (9053, 9890)},
    "mp3": {"unprocessed": (37, 188), "decoded": (206, 211),
            "spectrogram-encoded": (5220, 8430)},
    "flac": {"unprocessed": (15, 39), "decoded": (47, 48),
             "spectrogram-encoded": (1436, 5989)},
}

# Table 1: samples/s, GB with the source's.
TABLE1 = {"unprocessed": (107, 146), "pixel-centered": (576, 1535),
          "resized": (1789, 494)}

# Table 3, fio: (threads, one file or many): MB/s, requests/s.
FIO = {(1, "one"): (219, 53400), (8, "one"): (910, 222000),
       (1, "many"): (6.6, 1629), (8, "many"): (40.4, 9853)}

# Table 4: samples/s and MB/s, unprocessed and concatenated.
TABLE4 = {"cv": (107, 962, 12, 111), "cv, ssd": (588, 944, 68, 108),
          "cv2-jpg": (88, 288, 46, 110), "cv2-png": (15, 21, 270, 390),
          "nlp": (6, 6, 0.21, 0.26), "nlp, ssd": (3, 3, 0.17, 0.16)}

# Table 5: times as fast as without a cache: system's, application's.
TABLE5 = {"cv2-jpg": (3.3, 15.2), "cv2-png": (3.5, 14.5),
          "flac": (4.2, 8.0), "mp3": (1.6, 2.2), "nilm": (1.1, 1.4)}

# Figure 9: seconds for 15 GB where the text has them, by bytes of a sample.
FIG9 = {"sys-cache": {20_500_000: 4.8, 10_000: 167.3},
        "app-cache": {20_500_000: 0.1, 10_000: 138.3}}

# Figure 10, as far as the text has numbers: space saved, times as fast.
FIG10 = {("cv", "pixel-centered"): ("73-93 %", "1.6-2.4x"),
         ("cv2-jpg", "pixel-centered"): ("74 %", "1.6-2.4x"),
         ("cv2-png", "pixel-centered"): ("73-93 %", "1.6-2.4x"),
         ("cv2-jpg", "decoded"): ("41 %", "slower"),
         ("cv2-png", "decoded"): ("83 %", "1.5x"),
         ("cv2-jpg", "resized"): ("24 %", "0.96x"),
         ("cv2-png", "resized"): ("81 %", "1.3x"),
         ("cv2-png", "concatenated"): ("0.3 %", "-"),
         ("nlp", "embedded"): ("28 %", "slower")}
SLOWER = ("0.3-41 %", "slower")     # all of nilm, mp3, flac

# Figure 14: samples/s.
GREY = {"cv-grey": {"applied-greyscale": 4284},
        "cv-grey-last": {"resized": 1513, "pixel-centered": 534,
                         "applied-greyscale": 1384}}

# Figure 13: seconds for 15 GB in samples of 20.5 MB.
RMS = {"NumPy, 1 thread": 650, "TensorFlow, 8 threads": 1905}
SHUFFLE_MS = 9.6        # a sample more than without, whatever its size
